"""The transactions of a virtual host: for each, the last committed batch and the user that owns it.

A transaction is created by the first commit under its name and belongs to the user that made it. Its row is kept:
repeated batches are detected with it. The number of rows per user and virtual host is limited. At the limit, the least
recently used transaction of the user is removed if it has been unused for a week: each batch write of Spark creates a
transaction and never uses it again.

Rows of earlier versions have no owner. The next user that commits a stage to such a transaction becomes its owner. They
do not count towards any limit.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import NamedTuple
from weakref import WeakKeyDictionary

from leveret.broker.vhost import Vhost
from leveret.errors import PreconditionFailed
from leveret.logs import get_log

COMPONENT = "commit"
MOST_OF_A_USER = 10_000
MOST_OF_A_VHOST = 100_000
IDLE = 7 * 86_400.0  # seconds unused after which a transaction may be removed for a new one of its owner
NO_OWNER = ""

log = get_log("pipeline")


class CommitRow(NamedTuple):
    batch: int
    stages: list[str]  # ids of those that are still to be moved
    messages: int
    owner: str = NO_OWNER
    since: float = 0.0  # wall time of the commit

    def encoded(self) -> bytes:
        return json.dumps(self._asdict()).encode()

    @staticmethod
    def decoded(row: bytes) -> CommitRow:
        facts = json.loads(row)
        stages = [str(id_) for id_ in facts["stages"]]
        owner, since = str(facts.get("owner", NO_OWNER)), float(facts.get("since", 0.0))
        return CommitRow(int(facts["batch"]), stages, int(facts["messages"]), owner, since)


class Transactions:
    """The transactions of one virtual host, the least recently committed first."""

    def __init__(self, vhost: Vhost) -> None:
        self._vhost = vhost
        self._rows: dict[str, CommitRow] = {}
        self._of_owner: dict[str, dict[str, None]] = {}  # names, in the same order
        found = [(name, row) for name in vhost.parameters.names(COMPONENT) if (row := self._read(name)) is not None]
        for name, row in sorted(found, key=lambda pair: pair[1].since):
            self._enter(name, row)

    def _read(self, name: str) -> CommitRow | None:
        try:
            return CommitRow.decoded(self._vhost.parameters.get(COMPONENT, name) or b"")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
            log.error("stored commit is invalid", transaction=name, reason=repr(problem))
            return None

    def get(self, name: str) -> CommitRow | None:
        return self._rows.get(name)

    def names(self, owner: str | None = None) -> Collection[str]:
        """The transactions of one user, or all."""
        return self._rows if owner is None else self._of_owner.get(owner, {})

    def rows(self) -> Iterator[tuple[str, CommitRow]]:
        yield from self._rows.items()

    def put(self, name: str, row: CommitRow) -> None:
        before = self._rows.get(name)
        if before is None or before.owner != row.owner:
            self._make_room(row)
        self._vhost.parameters.put(COMPONENT, name, row.encoded())
        self._leave(name)
        self._enter(name, row)

    def drop(self, name: str) -> None:
        self._vhost.parameters.drop(COMPONENT, name)
        self._leave(name)

    def _enter(self, name: str, row: CommitRow) -> None:
        self._rows[name] = row
        self._of_owner.setdefault(row.owner, {})[name] = None

    def _leave(self, name: str) -> None:
        row = self._rows.pop(name, None)
        if row is not None:
            names = self._of_owner[row.owner]
            del names[name]
            if not names:
                del self._of_owner[row.owner]

    def _make_room(self, row: CommitRow) -> None:
        """Make room for one more transaction of the owner of ``row``, at the time of ``row``."""
        if row.owner == NO_OWNER:
            return
        names = self._of_owner.get(row.owner, {})
        owned = len(self._rows) - len(self._of_owner.get(NO_OWNER, ()))
        if len(names) < MOST_OF_A_USER and owned < MOST_OF_A_VHOST:
            return
        oldest = next(iter(names), None)
        if oldest is not None:
            idle = self._rows[oldest]
            if not idle.stages and idle.since < row.since - IDLE:
                log.info(
                    "idle transaction removed to make room", vhost=self._vhost.name, transaction=oldest, user=row.owner
                )
                self.drop(oldest)
                return
        raise PreconditionFailed(
            f"user '{row.owner}' has {len(names)} transactions in vhost '{self._vhost.name}', and all users have "
            f"{owned}: at most {MOST_OF_A_USER} and {MOST_OF_A_VHOST} are kept; use a transaction for many batches, or "
            "have an administrator delete some (DELETE /api/pipeline/{vhost}/commits)"
        )


class TransactionsOfBroker:
    """By virtual host. A virtual host that was deleted and created again has none."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Vhost, Transactions] = WeakKeyDictionary()

    def of(self, vhost: Vhost) -> Transactions:
        found = self._known.get(vhost)
        if found is None:
            found = self._known[vhost] = Transactions(vhost)
        return found
