"""PKI: who vouches for the parts of a cloud to each other."""
