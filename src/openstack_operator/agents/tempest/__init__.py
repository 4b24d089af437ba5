"""Program of a run of Tempest."""
