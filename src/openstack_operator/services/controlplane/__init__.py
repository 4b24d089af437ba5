"""OpenStackControlPlane: a whole cloud from one resource."""
