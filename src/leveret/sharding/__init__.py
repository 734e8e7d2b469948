"""Sharded exchanges: shards, pseudo-queues, resizing that keeps the order of each key."""
