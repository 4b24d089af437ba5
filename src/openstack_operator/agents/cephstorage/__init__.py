"""Program that makes a Ceph's pools and clients, and reports its state."""
