"""RabbitMQ: the broker services send their RPC through."""
