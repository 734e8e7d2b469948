"""Several cells as one cluster: links between them, and queues that are in another cell."""
