"""A cloud on a Ceph of ours in a bucket, and back."""
