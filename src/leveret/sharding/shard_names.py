"""The names of shards, as RabbitMQ's sharding plugin makes them."""

from __future__ import annotations


def shard_name(exchange: str, node: str, index: int) -> str:
    return f"sharding: {exchange} - {node} - {index}"
