"""The command `leveret`."""
