"""One AMQP connection: the meaning of its frames."""
