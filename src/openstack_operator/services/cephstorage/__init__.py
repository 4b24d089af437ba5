"""CephStorage: pools for volumes, images, disks and backups, in a Ceph of ours or an external one."""
