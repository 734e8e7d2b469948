"""The open transaction of a recovering channel. It becomes void with the loss of the connection."""

from __future__ import annotations

from leveret.client.errors import ClientError, ConnectionLost, TransactionRolledBack


class OpenTransaction:
    def __init__(self) -> None:
        self.is_dirty = False  # it is not empty
        self.void: Exception | None = None  # why it cannot be committed

    def begin(self) -> None:
        self.is_dirty, self.void = False, None

    def lose(self, problem: Exception) -> None:
        """The connection is lost."""
        if self.is_dirty:
            self.is_dirty, self.void = False, problem

    def may_publish(self, *, is_live: bool) -> bool:
        if not is_live and self.void is None:
            self.void = ConnectionLost("not connected at the time of a publish")
        return self._may()

    def may_settle(self, *, is_known: bool) -> bool:
        """Messages that an earlier connection delivered cannot be settled in it."""
        if not is_known and self.void is None:
            self.void = ConnectionLost("it acknowledges or rejects messages of an earlier connection")
        return self._may()

    def _may(self) -> bool:
        self.is_dirty = self.void is None
        return self.is_dirty


def rolled_back(problem: Exception | None) -> TransactionRolledBack:
    return TransactionRolledBack(
        f"the connection was lost before the broker answered the commit ({problem}): the transaction counts as rolled "
        "back; repeat it"
    )


def too_late() -> ClientError:
    return ClientError(
        "failover: uses publisher confirms outside of transactions, and a channel cannot use both: "
        "select transactions before the first publish, or on another channel"
    )
