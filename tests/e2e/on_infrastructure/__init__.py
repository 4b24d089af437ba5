"""Programs that are no part of OpenStack, each from one version to the next."""
