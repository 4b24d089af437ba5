"""OpenStack Neutron: networks, routers and floating IPs."""
