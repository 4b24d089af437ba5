"""RabbitMQ: the broker through which services send their RPC."""
