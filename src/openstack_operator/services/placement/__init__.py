"""OpenStack Placement: inventories of resources, and who has claimed them."""
