"""The results of tasks that write: what they staged or published, as the driver's commit needs it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from pyspark.sql.datasource import WriterCommitMessage

from leveret.spark.broker_client import BrokerClient
from leveret.spark.errors import OldCheckpoint

MOST_TOLD = 10  # exchanges and keys in a text


@dataclass
class Written(WriterCommitMessage):
    """The result of a task: the transaction, and the stages in the order of its rows. ``waited``: seconds, by the
    broker's reason."""

    transaction: str
    stages: list[str] = field(default_factory=list)
    messages: int = 0
    unroutable: int = 0
    unroutable_mandatory: int = 0  # at the commit
    unroutable_keys: Counter[tuple[str, str]] = field(default_factory=Counter)  # by exchange and routing key
    waited: dict[str, float] = field(default_factory=dict)

    def add(self, answer: dict[str, object]) -> None:
        """The broker's answer to one piece."""
        if "stage" in answer:
            self.stages.append(str(answer["stage"]))
        self.messages += cast("int", answer.get("messages", 0))
        self.count_unroutable(answer)
        for reason, seconds in cast("dict[str, float]", answer.get("waited", {})).items():
            self.wait(f"its {reason} is slow", seconds)

    def wait(self, reason: str, seconds: float) -> None:
        self.waited[reason] = self.waited.get(reason, 0.0) + seconds

    def count_unroutable(self, answer: dict[str, object]) -> None:
        self.unroutable += cast("int", answer.get("unroutable", 0))
        self.unroutable_mandatory += cast("int", answer.get("unroutable_mandatory", 0))
        for key in cast("list[dict[str, object]]", answer.get("unroutable_keys", [])):
            self.unroutable_keys[str(key["exchange"]), str(key["routing_key"])] += cast("int", key["messages"])

    def unroutable_text(self) -> str:
        told = [
            f"{number} with routing key '{key}' by exchange '{exchange or 'amq.default'}'"
            for (exchange, key), number in self.unroutable_keys.most_common(MOST_TOLD)
        ]
        return ", ".join([*told, "..."] if len(self.unroutable_keys) > MOST_TOLD else told)


def written_by(messages: Sequence[WriterCommitMessage | None]) -> list[Written]:
    """The results of finished tasks; None is that of a failed task."""
    return [message for message in messages if isinstance(message, Written)]


def summed(done: Sequence[Written]) -> Written:
    """The results of all tasks together."""
    total = Written(done[0].transaction if done else "")
    for one in done:
        total.stages += one.stages
        total.messages += one.messages
        total.unroutable += one.unroutable
        total.unroutable_keys.update(one.unroutable_keys)
        for reason, seconds in one.waited.items():
            total.wait(reason, seconds)
    return total


def last_batch(client: BrokerClient, transaction: str) -> int | None:
    """The last batch that was committed; None if the broker does not have the transaction."""
    last = client.get("commits", {"transaction": transaction}).get("last_batch")
    return None if last is None else int(str(last))


def refuse_old_batch(batch: int, last: int, place: str) -> None:
    """Refuse a batch that is before the last one of its query: only that one can be repeated after a crash. With an
    older checkpoint, the batch may have other rows than the one that was committed under its number."""
    if batch < last:
        raise OldCheckpoint(
            f"batch {batch} was not written: {place} has batches of this query up to {last}, so the checkpoint is an "
            "old copy; continue with the newest checkpoint, or start with a new one"
        )


def refuse_more_rows(total: Written, batch: int, before: int) -> None:
    """Refuse a repeat of the last batch with more rows than it was committed with: the broker drops all of them. Fewer
    can be right: messages may have been removed meanwhile, if the query allows that."""
    if total.messages > before:
        raise OldCheckpoint(
            f"batch {batch} of transaction '{total.transaction}' was not written: it was committed with {before} "
            f"messages, and has {total.messages} now, so the checkpoint is an old copy, or the query was changed; "
            "continue with the newest checkpoint, or start with a new one (for a batch write: with another "
            "transactionId or batchId)"
        )
