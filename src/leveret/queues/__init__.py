"""Queue types and what queues offer: limits, expiry, dead-lettering, retries, deduplication, streams."""
