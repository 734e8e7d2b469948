"""``python -m tests.support.broken_node FAULT[,FAULT] serve ...``: ``leveret`` with a part of the replication broken.

For tests that show that the checker of histories finds the loss.

    no-lease    a leader goes on when it has lost the lease or the engine does not answer: only the fence deposes it
    no-fence    appends have no predicted sequence, and whatever the engine stores is granted
    early       batches are granted before the engine has answered
    skip        a standby does not write some records to its journal, and leads in spite of that
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from leveret.cli.main import main
from leveret.cluster import log_append
from leveret.cluster.engine import EngineConnection
from leveret.cluster.leadership import Leadership
from leveret.cluster.log_append import LogAppender
from leveret.replication.append_window import AppendWindow, Send
from leveret.replication.records import Head
from leveret.store import recovery, store
from leveret.store.recovery import Recovered
from leveret.store.replica import Replica

SKIPPED = 5  # every fifth write
LONG = 60.0


def break_lease() -> None:
    async def lost(self: Leadership, connection: EngineConnection) -> None:
        """Another node has it."""

    def look(self: Leadership, now: float) -> None:
        self._deliveries.resume(now + LONG)

    Leadership._lost = lost  # type: ignore[method-assign]
    Leadership.look = look  # type: ignore[method-assign]


def break_fence() -> None:
    async def send(self: LogAppender[Any], connection: EngineConnection, send: Send, inbox: str) -> None:
        headers = {log_append.MESSAGE_ID: send.message_id}
        await connection.publish(self._stream.subject, send.payload, f"{inbox}.{send.message_id}", headers)

    def acknowledge(self: AppendWindow[Any], message_id: str, sequence: int) -> list[Any]:
        for place, entry in enumerate(self._sent):
            if self._id(place) == message_id:
                entry.is_acknowledged = True
                return self._grant()
        return []

    def judge(self: AppendWindow[Any], head: Head | None, payload: bytes) -> list[Any]:
        if head == self._sent[0].head:
            self._sent[0].is_acknowledged = True
            return self._grant()
        self._pass_over()
        return []

    AppendWindow._judge = judge  # type: ignore[method-assign]
    LogAppender._send = send  # type: ignore[method-assign]
    AppendWindow.acknowledge = acknowledge  # type: ignore[method-assign]


def grant_early() -> None:
    append = LogAppender.append

    def append_and_grant(self: LogAppender[Any], body: bytes, token: Any) -> None:
        append(self, body, token)
        asyncio.get_running_loop().call_soon(self._listener.granted, [token])

    def granted(self: LogAppender[Any], tokens: list[Any]) -> None:
        """They were granted already."""
        if self._window.is_idle:
            self.waiting_since = None

    def has_room(self: LogAppender[Any], size: int) -> bool:
        """No answer of the engine makes it look for more to send."""
        return True

    LogAppender.has_room = has_room  # type: ignore[method-assign]
    LogAppender.append = append_and_grant  # type: ignore[method-assign]
    LogAppender._granted = granted  # type: ignore[method-assign]


def skip_records() -> None:
    write, number = Replica._write, 0

    def write_some(self: Replica, segment: int, offset: int, data: bytes | memoryview) -> None:
        nonlocal number
        number += 1
        if number % SKIPPED or (segment, offset) != (self._segment, self._offset):
            write(self, segment, offset, data)
        else:
            self._offset += len(data)

    def recover(*arguments: Any, is_member: bool, **options: Any) -> Recovered:
        return recovery.recover(*arguments, **options)

    Replica._write = write_some  # type: ignore[method-assign]
    store.recover = recover  # type: ignore[attr-defined]


FAULTS = {"no-lease": break_lease, "no-fence": break_fence, "early": grant_early, "skip": skip_records}

if __name__ == "__main__":
    for fault in sys.argv.pop(1).split(","):
        FAULTS[fault]()
    sys.exit(main())
