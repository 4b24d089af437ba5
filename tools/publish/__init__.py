"""A release: images in a registry, and the files by which others install the operator from there."""
