"""A cloud whose nodes pull its images from a registry with a login."""
