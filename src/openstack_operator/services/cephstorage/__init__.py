"""CephStorage: pools for volumes, images, disks and backups, in a Ceph of ours or of others."""
