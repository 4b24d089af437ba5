"""The command line: runs the operator, looks at clouds, and plans without a cluster."""
