"""Container images built from Debian's packages, each tagged by a digest of what goes in."""
