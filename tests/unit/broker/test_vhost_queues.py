"""Making, agreeing on and deleting queues (S4-33, S4-73)."""

from __future__ import annotations

import pytest

from leveret.broker.vhost import Vhost
from leveret.errors import AccessRefused, NotFound, PreconditionFailed, ResourceLocked
from leveret.routing.bindings import Binding, Destination
from tests.support.peer_pair import Harness
from tests.support.spies import SpyConsumer, message, size_of

ME, YOU = object(), object()


def fill(vhost: Vhost, name: str, number: int = 1) -> None:
    run = [message() for _ in range(number)]
    vhost.queues[name].publish(run, size_of(run), False)


def test_declaring_again_just_so_gives_the_same_queue(vhost: Vhost) -> None:
    made = vhost.declare_queue("q", durable=True, arguments={"x-expires": 1000})
    assert vhost.declare_queue("q", durable=True, arguments={"x-expires": 1000, "x-note": "mine"}) is made
    assert vhost.queue("q") is made


def test_an_empty_name_gets_one_made_up(vhost: Vhost) -> None:
    one, two = vhost.declare_queue(), vhost.declare_queue()
    assert one.name.startswith("amq.gen-")
    assert one.name != two.name


@pytest.mark.parametrize(
    ("second", "text"),
    [
        (
            {"durable": True},
            "inequivalent arg 'durable' for queue 'q' in vhost '/': received 'true' but current is 'false'",
        ),
        (
            {"auto_delete": True},
            "inequivalent arg 'auto_delete' for queue 'q' in vhost '/': received 'true' but current is",
        ),
        ({"arguments": {"x-expires": 5}}, "'x-expires' for queue 'q' in vhost '/': received '5' but current is '1000'"),
        (
            {"arguments": {}},
            "inequivalent arg 'x-expires' for queue 'q' in vhost '/': received none but current is '1000'",
        ),
    ],
)
@pytest.mark.feature("S4-81")
def test_declaring_otherwise_is_refused_with_both_values(vhost: Vhost, second: dict[str, object], text: str) -> None:
    vhost.declare_queue("q", arguments={"x-expires": 1000})
    with pytest.raises(PreconditionFailed) as refusal:
        vhost.declare_queue("q", **({"arguments": {"x-expires": 1000}} | second))  # type: ignore[arg-type]
    assert text in refusal.value.text


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.feature("S4-73")
def test_exclusiveness_must_match_even_for_its_owner(vhost: Vhost, first: bool) -> None:
    """RESOURCE_LOCKED in either direction, as RabbitMQ answers."""
    vhost.declare_queue("q", exclusive=first, owner=ME)
    with pytest.raises(ResourceLocked, match=r"locked queue 'q' in vhost '/'\. It could be originally declared"):
        vhost.declare_queue("q", exclusive=not first, owner=ME)


@pytest.mark.feature("S4-73")
def test_an_exclusive_queue_is_for_its_owner_alone_and_goes_with_it(vhost: Vhost) -> None:
    made = vhost.declare_queue("q", exclusive=True, owner=ME)
    vhost.declare_queue("shared", owner=ME)
    assert vhost.queue("q", ME) is made
    for attempt in (
        lambda: vhost.queue("q", YOU),
        lambda: vhost.declare_queue("q", exclusive=True, owner=YOU),
        lambda: vhost.delete_queue("q", owner=YOU),
        lambda: vhost.purge_queue("q", YOU),
    ):
        with pytest.raises(ResourceLocked):
            attempt()
    vhost.drop_exclusive(YOU)
    assert "q" in vhost.queues
    vhost.drop_exclusive(ME)
    assert list(vhost.queues) == ["shared"]
    assert not made.alive


def test_reserved_names_are_refused(vhost: Vhost) -> None:
    with pytest.raises(AccessRefused, match=r"queue name 'amq\.mine' contains reserved prefix 'amq\.\*'"):
        vhost.declare_queue("amq.mine")


def test_a_vhost_may_have_so_many_queues(vhost: Vhost) -> None:
    vhost.max_queues = 1
    vhost.declare_queue("q")
    vhost.declare_queue("q")
    with pytest.raises(PreconditionFailed, match=r"'p': queue limit in vhost '/' \(1\) is reached"):
        vhost.declare_queue("p")
    vhost.delete_queue("q")
    vhost.declare_queue("p")


def test_deleting_tells_how_many_messages_went(vhost: Vhost) -> None:
    vhost.declare_queue("q")
    fill(vhost, "q", 3)
    assert vhost.delete_queue("q") == 3
    assert "q" not in vhost.queues


@pytest.mark.feature("S4-33")
def test_deleting_what_is_not_there_is_no_error(vhost: Vhost) -> None:
    assert vhost.delete_queue("nothing") == 0
    vhost.delete_exchange("nothing")
    assert not vhost.unbind(Binding("nothing", Destination("queue", "q"), ""))


def test_deleting_only_if_unused_or_empty(vhost: Vhost) -> None:
    queue = vhost.declare_queue("q")
    consumer = SpyConsumer(queue=queue, credit=0)
    queue.add_consumer(consumer)
    with pytest.raises(PreconditionFailed, match="queue 'q' in vhost '/' in use"):
        vhost.delete_queue("q", if_unused=True)
    queue.remove_consumer(consumer)
    fill(vhost, "q")
    with pytest.raises(PreconditionFailed, match="queue 'q' in vhost '/' is not empty"):
        vhost.delete_queue("q", if_empty=True)
    vhost.purge_queue("q")
    assert vhost.delete_queue("q", if_unused=True, if_empty=True) == 0


@pytest.mark.feature("S0-16")
def test_what_is_on_its_way_to_a_consumer_is_not_counted(vhost: Vhost) -> None:
    """Whoever counts lets due deliveries happen first."""
    queue = vhost.declare_queue("q")
    consumer = SpyConsumer(queue=queue, credit=1)
    queue.add_consumer(consumer)
    fill(vhost, "q", 2)
    assert vhost.purge_queue("q") == 1
    assert len(consumer.given) == 1


def test_removing_a_queue_twice_is_harmless(vhost: Vhost) -> None:
    """Two reasons to die may come at once: the last consumer leaves while the queue expires."""
    old = vhost.declare_queue("q")
    vhost.remove_queue(old)
    new = vhost.declare_queue("q")
    assert vhost.remove_queue(old) == 0
    assert vhost.queues["q"] is new


@pytest.mark.feature("S4-73")
def test_an_auto_delete_queue_goes_with_its_last_consumer(harness: Harness, vhost: Vhost) -> None:
    queue = vhost.declare_queue("q", auto_delete=True)
    consumer = SpyConsumer(queue=queue)
    queue.add_consumer(consumer)
    queue.remove_consumer(consumer)
    assert "q" not in vhost.queues


def test_an_unused_queue_expires_with_its_bindings(harness: Harness, vhost: Vhost) -> None:
    vhost.declare_queue("q", arguments={"x-expires": 1000})
    vhost.bind(Binding("amq.topic", Destination("queue", "q"), "#"))
    harness.advance(1)
    assert "q" not in vhost.queues
    assert len(vhost.bindings) == 0


def test_a_missing_queue_is_named(vhost: Vhost) -> None:
    with pytest.raises(NotFound, match="no queue 'q' in vhost '/'"):
        vhost.queue("q")


@pytest.mark.feature("S0-01")
def test_live_queues_leave_out_what_has_vanished(vhost: Vhost) -> None:
    kept = vhost.declare_queue("kept")
    assert vhost.live_queues(["gone", "kept"]) == [kept]
    assert not vhost.has_queue("gone")
