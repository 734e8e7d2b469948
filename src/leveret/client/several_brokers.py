"""Connections to several brokers that are used as one: ``failover:`` and ``fanout:`` addresses."""

from __future__ import annotations

from leveret.client.connection import Connection
from leveret.client.failover_uri import plan_of
from leveret.client.recovering_connection import RecoveringConnection


async def connect_several(uri: str) -> Connection:
    return await RecoveringConnection.begin(plan_of(uri))
