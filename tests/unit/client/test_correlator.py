"""S3-05: answers find their questions, of which many may be under way."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from leveret.client.correlator import Correlator
from leveret.client.errors import Closed
from leveret.errors import UnexpectedFrame
from leveret.wire.methods import BasicGetEmpty, BasicGetOk, BasicQosOk, ChannelCloseOk, QueueDeclareOk


@pytest.fixture
def correlator() -> Iterator[Correlator]:
    loop = asyncio.new_event_loop()
    yield Correlator(loop)
    loop.close()


@pytest.mark.feature("S3-05")
def test_answers_go_to_questions_in_their_order(correlator: Correlator) -> None:
    first, second = correlator.expect(QueueDeclareOk), correlator.expect(QueueDeclareOk)
    correlator.answer(QueueDeclareOk("a", 1, 0))
    assert first.result().queue == "a"
    assert not second.done()
    correlator.answer(QueueDeclareOk("b", 2, 0))
    assert second.result().queue == "b"


def test_one_of_several_answers_will_do_and_content_goes_before_its_method(correlator: Correlator) -> None:
    first, second = (correlator.expect(BasicGetOk, BasicGetEmpty) for _ in range(2))
    correlator.answer(BasicGetEmpty())
    assert first.result() == BasicGetEmpty()
    correlator.answer(BasicGetOk(1, False, "", "k", 0), "the message")
    assert second.result() == "the message"


def test_then_sees_the_answer_before_anybody_who_waits(correlator: Correlator) -> None:
    seen: list[object] = []
    future = correlator.expect(BasicQosOk, then=lambda answer: seen.append(answer) or "changed")
    correlator.answer(BasicQosOk())
    assert seen == [BasicQosOk()]
    assert future.result() == "changed"


def test_a_question_that_was_given_up_still_takes_its_answer(correlator: Correlator) -> None:
    gone, waiting = correlator.expect(QueueDeclareOk), correlator.expect(QueueDeclareOk)
    gone.cancel()
    correlator.answer(QueueDeclareOk("for the one who left"))
    correlator.answer(QueueDeclareOk("for the other"))
    assert waiting.result().queue == "for the other"


def test_answers_that_nobody_asked_for_are_refused(correlator: Correlator) -> None:
    with pytest.raises(UnexpectedFrame, match=r"basic\.qos-ok, which does not match any pending request"):
        correlator.answer(BasicQosOk())
    correlator.expect(QueueDeclareOk)
    with pytest.raises(UnexpectedFrame, match=r"basic\.qos-ok, which does not match any pending request"):
        correlator.answer(BasicQosOk())


@pytest.mark.feature("S3-05")
def test_answers_of_different_kinds_may_overtake_each_other(correlator: Correlator) -> None:
    declared, limited = correlator.expect(QueueDeclareOk), correlator.expect(BasicQosOk)
    correlator.answer(BasicQosOk())
    assert limited.done()
    assert not declared.done()
    correlator.answer(QueueDeclareOk("a", 1, 0))
    assert declared.result().queue == "a"


def test_the_end_reaches_all_who_asked_or_all_but_the_last(correlator: Correlator) -> None:
    problem = Closed("over")
    futures = [correlator.expect(QueueDeclareOk) for _ in range(2)]
    closing = correlator.expect(ChannelCloseOk)
    correlator.end(problem, but_last=True)
    assert [one.exception() for one in futures] == [problem, problem]
    correlator.answer(ChannelCloseOk())
    assert closing.result() == ChannelCloseOk()
    late = correlator.expect(QueueDeclareOk)
    correlator.end(problem)
    assert late.exception() is problem
