"""Ids of messages in a queue: the queue's id, which changes if the queue is deleted and declared again, the lane and
the sequence. A position is the last message of each lane that was browsed."""

from __future__ import annotations

from leveret.backlog.walk import START, Position
from leveret.http.errors import BadRequest
from leveret.queues.declared_queue import DeclaredQueue

MOST_LANES = 256  # as many as there are priorities


def message_id(queue: DeclaredQueue, lane: int, sequence: int) -> str:
    return f"{queue.id}-{lane}-{sequence}"


def place_of(queue: DeclaredQueue, id_: object, field: str) -> tuple[int, int]:
    """Lane and sequence; ``field`` is where the id was given."""
    parts = id_.split("-") if isinstance(id_, str) else []
    if len(parts) != 3 or not all(part.isascii() and part.isdecimal() and len(part) < 20 for part in parts):
        raise BadRequest(
            f"'{field}' has {id_!r:.80}, which is not a message id: use ids returned by browsing the queue"
        )
    if int(parts[0]) != queue.id:
        raise BadRequest(f"'{field}' has '{id_}', which is of another queue than '{queue.name}': browse it again")
    return int(parts[1]), int(parts[2])


def position_text(queue: DeclaredQueue, position: Position) -> str:
    return ",".join(message_id(queue, lane, sequence) for lane, sequence in sorted(position.items()))


def position_of(queue: DeclaredQueue, text: str, field: str) -> Position:
    if not text:
        return START
    ids = text.split(",", MOST_LANES)
    if len(ids) > MOST_LANES:
        raise BadRequest(f"'{field}' has more than {MOST_LANES} message ids: use the position returned by browsing")
    return dict(place_of(queue, id_, field) for id_ in ids)
