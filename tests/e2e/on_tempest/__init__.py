"""A cloud that is tested by Tempest."""
