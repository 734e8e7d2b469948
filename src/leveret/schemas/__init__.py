"""Schemas of message bodies: parsed, identified and compared, in plain Python, for the broker and for Spark."""
