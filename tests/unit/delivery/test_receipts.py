"""Receipts of queues that answer later (S0-02, S0-03)."""

from __future__ import annotations

import pytest

from leveret.delivery.receipts import PendingPublish, Unattended
from tests.support.spies import messages


class SpyPublisher:
    def __init__(self) -> None:
        self.credits: list[int] = []
        self.resolutions: list[PendingPublish] = []

    def spend(self, credits: int) -> None:
        self.credits.append(-credits)

    def refund(self, credits: int) -> None:
        self.credits.append(credits)

    def resolved(self, publish: PendingPublish) -> None:
        self.resolutions.append(publish)


@pytest.fixture
def publisher() -> SpyPublisher:
    return SpyPublisher()


@pytest.fixture
def publish(publisher: SpyPublisher) -> PendingPublish:
    return PendingPublish(publisher, messages(b"a", b"b"))


@pytest.mark.feature("S0-02")
def test_each_receipt_costs_a_credit_for_each_message(publisher: SpyPublisher, publish: PendingPublish) -> None:
    publish.open()
    publish.open()
    assert publisher.credits == [-2, -2]


@pytest.mark.feature("S0-03")
@pytest.mark.parametrize("answer", ["granted", "refused", "lost"])
def test_credit_comes_back_once_however_a_receipt_ends(
    publisher: SpyPublisher, publish: PendingPublish, answer: str
) -> None:
    receipt = publish.open()
    for _ in range(2):
        receipt.received()
        getattr(receipt, answer)()
    assert publisher.credits == [-2, 2]


def test_a_publish_is_resolved_once_by_its_last_receipt(publisher: SpyPublisher, publish: PendingPublish) -> None:
    first, second = publish.open(), publish.open()
    publish.resolve(True)  # the queues of this broker
    first.granted()
    first.granted()
    assert publisher.resolutions == []
    second.granted()
    second.lost()
    assert publisher.resolutions == [publish]
    assert not publish.is_rejected


@pytest.mark.parametrize(
    ("answer", "is_received", "is_rejected"),
    [("granted", True, False), ("refused", True, True), ("lost", False, True)],
)
def test_a_publish_knows_how_its_receipts_ended(
    publish: PendingPublish, answer: str, is_received: bool, is_rejected: bool
) -> None:
    getattr(publish.open(), answer)()
    assert (publish.is_received, publish.is_rejected) == (is_received, is_rejected)


def test_a_late_answer_changes_nothing(publisher: SpyPublisher, publish: PendingPublish) -> None:
    receipt = publish.open()
    receipt.lost()
    receipt.granted()
    assert not publish.is_received
    assert publisher.credits == [-2, 2]


def test_no_client_waits_for_an_unattended_publish() -> None:
    publish = PendingPublish(Unattended(), messages(b"a"))
    publish.open().lost()
    publish.resolve(True)
    assert publish.is_rejected
