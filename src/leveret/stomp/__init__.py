"""STOMP 1.0, 1.1 and 1.2, as calls of the channels of a session."""
