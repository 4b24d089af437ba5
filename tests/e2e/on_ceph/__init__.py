"""A cloud on Ceph, in one cluster for all tests of this folder, which run in the order of their files' names."""
