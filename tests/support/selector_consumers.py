"""Queues with selectors: messages with headers, consumers with selectors, and the end of a consumer."""

from __future__ import annotations

from leveret.delivery.selector import compile_selector
from leveret.message import Message
from leveret.queues.classic import ClassicQueue
from leveret.wire.content import make_content
from leveret.wire.properties import Properties
from tests.support.spies import SpyConsumer
from tests.support.spies import message as plain


def message(body: bytes, *, deadline: float | None = None, priority: int = 0, **headers: object) -> Message:
    """Headers are named with underscores; ``group`` stands for x-group-id."""
    named = {"x-group-id" if name == "group" else name.replace("_", "-"): value for name, value in headers.items()}
    _, address, traits = plain(body, priority=priority) if deadline is None else plain(body, deadline=deadline)
    return make_content(Properties(headers=named or None), body), address, traits


def of_groups(text: str) -> list[Message]:
    """``a1 a2 b1 -1``: bodies, each with the group that its first letter names; ``-`` has none."""
    return [
        message(body.encode(), **({} if body.startswith("-") else {"group": body.rstrip("0123456789")}))
        for body in text.split()
    ]


def consumer_of(queue: ClassicQueue, credit: int = 1 << 60, *, selector: str = "", **more: object) -> SpyConsumer:
    one_shot = bool(more.pop("one_shot", False))
    consumer = SpyConsumer(queue=queue, credit=credit, **more)
    consumer.selector = compile_selector(selector) if selector else None
    consumer.one_shot = one_shot
    queue.add_consumer(consumer)
    return consumer


def given(consumer: SpyConsumer) -> str:
    return " ".join(body.decode() for body in consumer.bodies)


def die(consumer: SpyConsumer) -> None:
    """Its channel is gone: what it holds comes back, then it leaves."""
    for each in consumer.given:
        consumer.queue.requeue(each.lane, each.sequence, [each.message], each.count, tried=False)
    consumer.given.clear()
    consumer.queue.remove_consumer(consumer)  # type: ignore[attr-defined]
