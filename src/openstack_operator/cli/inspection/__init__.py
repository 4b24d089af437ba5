"""Commands that look at a cluster, and change at most an annotation: the state of a cloud, and why it is not ready."""
