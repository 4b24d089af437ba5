"""OVN: the virtual networks of the cloud, and the switch on every node that carries them out."""
