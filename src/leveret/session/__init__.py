"""Connections and channels of clients: what all protocols share, and the frames of AMQP."""
