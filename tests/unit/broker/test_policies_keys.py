"""The keys of policies: what each takes, and what is said to wrong ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from leveret.broker.policy_keys import ARGUMENT_ONLY, ARGUMENTS, KEYS, LIMITS, check_definition
from leveret.errors import PreconditionFailed
from leveret.queues.options import QueueOptions

GOOD: dict[str, object] = {
    "message-ttl": 0,
    "expires": 1,
    "max-length": 0,
    "max-length-bytes": 1 << 40,
    "delivery-limit": 3,
    "consumer-timeout": 60_000,
    "overflow": "reject-publish-dlx",
    "dead-letter-exchange": "",
    "dead-letter-routing-key": "dead",
    "retry-delays": [1000, 0, 5000],
    "retry-delay-min": 100,
    "retry-delay-max": 60_000,
    "retry-multiplier": 2.5,
    "retry-jitter": 0.1,
    "delayed-retry-type": "failed",
    "delayed-retry-min": 100,
    "delayed-retry-max": 1000,
    "message-deduplication": True,
    "deduplication-header": "x-id",
    "deduplication-window-ms": 60_000,
    "deduplication-window-count": 1000,
    "message-groups": False,
    "dead-letter-strategy": "individual",
    "dead-letter-queue": "Dead",
    "dead-letter-queue-prefix": "Dead.",
    "process-expired": False,
    "process-non-persistent": True,
    "max-redeliveries": 6,
    "pending-message-limit": 1000,
    "durability": "os",
    "queue-leader-locator": "min-masters",
    "alternate-exchange": "amq.fanout",
    "shards-per-node": 4,
    "routing-key": "k",
    "ordered-resize": True,
    "sharded": True,
    "shard-queue-type": "stream",
    "max-age": "7D",
    "stream-max-segment-size-bytes": 1 << 20,
}
BAD: dict[str, tuple[object, ...]] = {
    "message-ttl": (-1, "5", 1.5, True, None, 1 << 60),
    "expires": (0, -1),
    "max-length": (-1, [1]),
    "delivery-limit": (-2, "x"),
    "overflow": ("drop-tail", 1),
    "dead-letter-exchange": (1, "x" * 256),
    "retry-delays": ([], [-1], ["1"], 5, [1] * 101),
    "retry-multiplier": (0.5, "2", float("nan")),
    "retry-jitter": (1.5, -0.1, True),
    "delayed-retry-type": ("sometimes",),
    "message-deduplication": ("yes", 1),
    "deduplication-window-count": (0,),
    "dead-letter-strategy": ("both",),
    "process-expired": (0,),
    "durability": ("maybe",),
    "queue-leader-locator": ("nearest", "", 1),
    "shards-per-node": (-1, 1 << 20),
    "ordered-resize": (1,),
    "shard-queue-type": ("log", 1),
    "max-age": ("7", "D", "-1h", "1w", 5),
    "stream-max-segment-size-bytes": (0, 1 << 40, "1MB"),
}


@pytest.mark.parametrize(("name", "value"), GOOD.items())
def test_key_takes_a_good_value_alone(name: str, value: object) -> None:
    check_definition({name: value}, operator=False)


def test_every_key_that_has_an_effect_has_a_good_value_here() -> None:
    assert GOOD.keys() == {name for name, key in KEYS.items() if key.about != "nothing"}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in BAD.items() for value in values])
def test_wrong_value_is_refused_with_key_and_value(name: str, value: object) -> None:
    with pytest.raises(PreconditionFailed) as caught:
        check_definition({"max-length": 1, name: value}, operator=False)
    assert f"policy key '{name}': {value!r} " in caught.value.text


@pytest.mark.parametrize("name", [name for name, key in KEYS.items() if key.about == "queues"])
def test_queues_know_the_argument_of_every_key(name: str) -> None:
    """A value of a type that nobody takes is refused by the options, too: the key is not one of ours alone."""
    key = KEYS[name]
    if name in ("dead-letter-queue", "dead-letter-queue-prefix", "process-expired", "process-non-persistent"):
        strategy = "shared" if name == "dead-letter-queue" else "individual"
        needs: dict[str, object] = {"x-dead-letter-strategy": strategy}
    elif name == "dead-letter-strategy":
        needs = {}
    else:
        needs = dict(key.needs)
    with pytest.raises(PreconditionFailed):
        QueueOptions.of({**needs, ARGUMENTS[name]: {"a": "table"}})


def test_unknown_key_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(PreconditionFailed) as caught:
        check_definition({"max-lenght": 1}, operator=False)
    assert caught.value.text == "'max-lenght' is not a recognised policy setting; did you mean 'max-length'?"
    with pytest.raises(PreconditionFailed) as caught:
        check_definition({"qqq": 1}, operator=False)
    assert caught.value.text.startswith("'qqq' is not a recognised policy setting; known are alternate-exchange, ")
    assert ", max-length, " in caught.value.text


@pytest.mark.parametrize("name", ARGUMENT_ONLY)
def test_what_only_a_declaration_can_say_is_refused_with_the_argument(name: str) -> None:
    with pytest.raises(PreconditionFailed, match=f"declare the queue with the argument 'x-{name}'"):
        check_definition({name: 1}, operator=False)


def test_operator_policies_have_limits_only() -> None:
    allowed = {name for name, key in KEYS.items() if key.for_operators}
    assert allowed == {
        "expires",
        "message-ttl",
        "max-length",
        "max-length-bytes",
        "max-in-memory-length",
        "max-in-memory-bytes",
        "delivery-limit",
    }
    assert {ARGUMENTS[name] for name in allowed} <= LIMITS
    for name in allowed:
        check_definition({name: 5}, operator=True)
    with pytest.raises(PreconditionFailed) as caught:
        check_definition({"overflow": "drop-head"}, operator=True)
    assert caught.value.text.startswith(
        "'overflow' is not a recognised operator policy setting; known are delivery-limit"
    )


def test_keys_of_rabbitmq_without_effect_here_are_taken() -> None:
    check_definition({"ha-mode": "exactly", "ha-params": 2, "queue-mode": "lazy", "queue-version": 2}, operator=False)


def test_every_key_has_its_line_in_the_guide() -> None:
    guide = (Path(__file__).parents[3] / "docs" / "guide" / "policies.md").read_text(encoding="utf-8")
    missing = [
        name for name, key in KEYS.items() if (f"| `{name}` |" if key.about != "nothing" else f"`{name}`") not in guide
    ]
    assert missing == []


@pytest.mark.parametrize("strategy", ["at-most-once", "at-least-once"])
def test_rabbitmqs_strategies_are_taken_and_change_nothing(strategy: str) -> None:
    check_definition({"dead-letter-strategy": strategy}, operator=False)
    assert QueueOptions.of({"x-dead-letter-strategy": strategy}) == QueueOptions.of({})
