"""OpenStack Keystone: users, projects, tokens and the service catalog."""
