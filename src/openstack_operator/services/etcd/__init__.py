"""etcd: locks that services on several nodes share."""
