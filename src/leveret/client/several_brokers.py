"""Connections to several brokers that are used as one: ``failover:`` and ``fanout:`` addresses."""

from __future__ import annotations

from collections.abc import Iterable

from leveret.client.connection import Connection, Listener
from leveret.client.failover_uri import plan_of
from leveret.client.fanout import FanoutConnection
from leveret.client.recovering_connection import RecoveringConnection


async def connect_several(uri: str, listeners: Iterable[Listener] = ()) -> Connection:
    plan = plan_of(uri)
    if uri.startswith("fanout:"):
        return await FanoutConnection.begin(plan, listeners)
    return await RecoveringConnection.begin(plan, listeners)
