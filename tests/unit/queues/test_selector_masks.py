from __future__ import annotations

from leveret.delivery.consumer import Consumer
from leveret.delivery.selector import compile_selector
from leveret.queues.selection_order import EVERYTHING, MOST_STEPS, SelectorMasks

FIELDS = {"text": "a" * 4_000, "number": 3}


def sieve_of(number: int) -> SelectorMasks:
    """Selectors that are expensive to ask; the one with number 3 takes the message."""
    consumers = []
    for each in range(number):
        consumer = Consumer.__new__(Consumer)
        consumer.selector = compile_selector(f"text LIKE '%a%' AND number = {each}")
        consumers.append(consumer)
    sieve = SelectorMasks()
    assert sieve.admit(consumers)
    return sieve


def test_few_selectors_are_asked_at_once() -> None:
    mask, steps = sieve_of(4).ask(7, FIELDS)
    assert (mask, steps < MOST_STEPS) == (EVERYTHING | EVERYTHING << 4, True)


def test_many_selectors_are_asked_in_several_ticks() -> None:
    sieve = sieve_of(200)
    ticks = 1
    while (answer := sieve.ask(7, FIELDS))[0] is None:
        assert answer[1] <= MOST_STEPS + 20_000
        ticks += 1
    assert answer[0] == EVERYTHING | EVERYTHING << 4
    assert 5 < ticks < 20


def test_another_message_is_asked_from_the_beginning() -> None:
    sieve = sieve_of(200)
    assert sieve.ask(7, FIELDS)[0] is None
    assert sieve.ask(8, {"number": 3})[0] == EVERYTHING
    assert sieve.ask(8, {"text": "a", "number": 3})[0] == EVERYTHING | EVERYTHING << 4
