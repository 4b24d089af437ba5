"""OpenStack Nova: virtual machines, in cells."""
