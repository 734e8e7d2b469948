"""STOMP 1.0, 1.1 and 1.2, translated to AMQP methods for a session."""
