"""PKI: the authority that certifies the parts of a cloud to each other."""
