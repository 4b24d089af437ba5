"""Cortex: a scheduler that others ask which of the hosts they have left is the best one."""
