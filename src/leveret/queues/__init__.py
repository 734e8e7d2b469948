"""Queue types and the features of queues: limits, expiry, dead-lettering, retries, deduplication, streams."""
