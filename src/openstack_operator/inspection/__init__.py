"""Commands that look at a cluster: the state of a cloud, and why it is not ready. They change nothing."""
