"""What tools of others say of the manifests that this operator makes."""
