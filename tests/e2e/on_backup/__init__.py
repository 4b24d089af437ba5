"""A cloud that is backed up, deleted with all of its data, and made again."""
