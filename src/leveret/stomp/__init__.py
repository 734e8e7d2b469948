"""STOMP 1.0, 1.1 and 1.2, spoken to a session as any AMQP client speaks to it."""
