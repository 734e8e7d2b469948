"""Entries of the engine's bucket, a key-value store of NATS: what the members of a cell know about each other."""

from __future__ import annotations

import base64
from typing import NamedTuple

from leveret.cluster.cell_stream import BUCKET
from leveret.cluster.engine import NO_MESSAGE, WRONG_SEQUENCE, EngineConnection, EngineRefusal
from leveret.errors import ClusterError

EXPECTED = "Nats-Expected-Last-Subject-Sequence"
TIME_TO_LIVE = "Nats-TTL"
OPERATION, DELETED = "KV-Operation", "DEL"
PREFIX = f"$KV.{BUCKET}."


class Entry(NamedTuple):
    value: bytes
    revision: int


async def read(connection: EngineConnection, key: str) -> Entry | None:
    """Raises EngineUnavailable when the engine does not answer."""
    entry = await _last(connection, key)
    return entry if entry is not None and entry.value else None  # a deleted key has an empty value


async def is_deleted(connection: EngineConnection, key: str) -> bool:
    """Whether the key was there until it was deleted."""
    entry = await _last(connection, key)
    return entry is not None and not entry.value


async def _last(connection: EngineConnection, key: str) -> Entry | None:
    try:
        answer = await connection.request(f"$JS.API.STREAM.MSG.GET.KV_{BUCKET}", {"last_by_subj": PREFIX + key})
    except EngineRefusal as refusal:
        if refusal.code == NO_MESSAGE:
            return None
        raise unusable(refusal) from refusal
    message = answer["message"]
    return Entry(base64.b64decode(message.get("data", "")), int(message["seq"]))


async def write(
    connection: EngineConnection, key: str, value: bytes, revision: int | None = None, seconds: int | None = None
) -> int | None:
    """Returns the new revision. With a ``revision``, only if the key still has it (0: only a key that is not there);
    else None. ``seconds``: the key is removed after that time."""
    headers = {} if seconds is None else {TIME_TO_LIVE: f"{seconds}s"}
    if revision is not None:
        headers[EXPECTED] = str(revision)
    written = await _append(connection, key, value, headers)
    if written is None and revision == 0:
        last = await _last(connection, key)
        if last is not None and not last.value:  # it was deleted, which is the last message of this key
            written = await _append(connection, key, value, headers | {EXPECTED: str(last.revision)})
    return written


async def delete(connection: EngineConnection, key: str) -> None:
    await _append(connection, key, b"", {OPERATION: DELETED})


async def keys(connection: EngineConnection, prefix: str) -> list[str]:
    """All keys that begin with ``prefix``, which ends with a dot; also those that were deleted."""
    request = {"subjects_filter": f"{PREFIX}{prefix}>"}
    try:
        answer = await connection.request(f"$JS.API.STREAM.INFO.KV_{BUCKET}", request)
    except EngineRefusal as refusal:
        raise unusable(refusal) from refusal
    return sorted(subject.removeprefix(PREFIX) for subject in answer["state"].get("subjects") or {})


async def _append(connection: EngineConnection, key: str, value: bytes, headers: dict[str, str]) -> int | None:
    try:
        return await connection.append(PREFIX + key, value, headers)
    except EngineRefusal as refusal:
        if refusal.code in WRONG_SEQUENCE:
            return None
        raise unusable(refusal) from refusal


def unusable(refusal: EngineRefusal) -> ClusterError:
    return ClusterError(
        f"the engine refuses a request about the bucket {BUCKET}: {refusal}; check it with 'nats kv info {BUCKET}'"
    )
