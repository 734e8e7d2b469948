"""Rows are published by the rules of every publish, whether they come directly or out of a stage."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from leveret.errors import PreconditionFailed
from leveret.message import Address, Message
from leveret.pipeline.inflow import RUN_BYTES, Inflow, Look, front, looked_at
from leveret.routing.bindings import Binding, Destination
from leveret.wire.content import properties_of
from tests.support.peer_pair import Harness
from tests.support.remote_queues import make_remote
from tests.support.sinks import Sink, address, drained, row
from tests.support.stored_harness import StoredHarness

Counts = tuple[int, int, int]  # published, unroutable, refused
Publish = Callable[[Harness, list[Message]], Counts]


def directly(harness: Harness, run: list[Message]) -> Counts:
    inflow = Inflow(harness.vhost)
    while run:
        look, piece = looked_at(run, harness.clock.now())
        inflow.publish(piece, look, has_traits=True)
        run = run[len(piece) :]
    harness.turn()
    return inflow.published, inflow.unroutable, inflow.refused


def by_a_stage(harness: Harness, run: list[Message]) -> Counts:
    sink = Sink(harness)
    batch = (sink.last() or 0) + 1
    stage = sink.begin("T", batch)
    sink.add(stage, run)
    done = sink.commit("T", batch, sink.finish(stage))
    return done.messages, done.unroutable, 0


@pytest.fixture(params=[directly, by_a_stage])
def publish(request: pytest.FixtureRequest) -> Publish:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(params=[Harness, StoredHarness])
def harness(request: pytest.FixtureRequest) -> Harness:
    return request.param()  # type: ignore[no-any-return]


def bind(harness: Harness, exchange: str, queue: str, key: str = "", **arguments: object) -> None:
    if queue not in harness.vhost.queues:
        harness.vhost.declare_queue(queue, durable=True)
    harness.vhost.bind(Binding(exchange, Destination("queue", queue), key, arguments))  # type: ignore[arg-type]


def rows(to: Address, *bodies: bytes, **properties: object) -> list[Message]:
    return [row(body, to, **properties) for body in bodies]


def test_messages_go_wherever_their_key_leads(harness: Harness, publish: Publish) -> None:
    bind(harness, "amq.topic", "all", "#")
    bind(harness, "amq.topic", "some", "a.*")
    assert publish(harness, rows(address("amq.topic", "a.b"), b"1", b"2")) == (2, 0, 0)
    assert publish(harness, rows(address("amq.topic", "c"), b"3")) == (1, 0, 0)
    assert drained(harness, "all") == [b"1", b"2", b"3"]
    assert drained(harness, "some") == [b"1", b"2"]
    assert harness.vhost.counters_of("amq.topic").published == 3


def test_what_reaches_no_queue_is_counted(harness: Harness, publish: Publish) -> None:
    assert publish(harness, rows(address("amq.direct", "nobody"), b"1", b"2")) == (2, 2, 0)
    assert publish(harness, rows(address("", "nobody"), b"3")) == (1, 1, 0)
    harness.vhost.declare_queue("nobody")
    assert publish(harness, rows(address("", "nobody"), b"4")) == (1, 0, 0)
    assert harness.vhost.counters_of("amq.direct").unroutable == 2


def test_an_alternate_exchange_gets_the_rest(harness: Harness, publish: Publish) -> None:
    harness.vhost.declare_exchange("main", "direct", arguments={"alternate-exchange": "amq.fanout"})
    bind(harness, "main", "mine", "mine")
    bind(harness, "amq.fanout", "rest")
    assert publish(harness, rows(address("main", "mine"), b"1")) == (1, 0, 0)
    assert publish(harness, rows(address("main", "other"), b"2")) == (1, 0, 0)
    assert (drained(harness, "mine"), drained(harness, "rest")) == ([b"1"], [b"2"])


def test_a_headers_exchange_looks_at_each_message(harness: Harness, publish: Publish) -> None:
    bind(harness, "amq.headers", "red", colour="red")
    bind(harness, "amq.headers", "blue", colour="blue")
    to = address("amq.headers")
    run = [row(b"%d" % number, to, headers={"colour": "red" if number % 2 else "blue"}) for number in range(4)]
    assert publish(harness, [*run, row(b"none", to)]) == (5, 1, 0)
    assert (drained(harness, "red"), drained(harness, "blue")) == ([b"1", b"3"], [b"0", b"2"])


def test_priority_and_persistence_are_those_of_the_properties(harness: Harness, publish: Publish) -> None:
    harness.vhost.declare_queue("q", durable=True, arguments={"x-max-priority": 5})
    run = [row(b"low", address()), row(b"high", address(), priority=5), row(b"transient", address(), delivery_mode=1)]
    publish(harness, run)
    kept = [message[2].persistent for lane in harness.queue("q").lanes for message in lane.ready]
    assert kept == [True, False, True]
    assert drained(harness, "q") == [b"high", b"low", b"transient"]


def test_an_expiration_counts_from_the_publish(harness: Harness, publish: Publish) -> None:
    harness.vhost.declare_queue("q", durable=True)
    publish(harness, rows(address(), b"short", b"lived", expiration="1000") + rows(address(), b"long"))
    harness.advance(0.9)
    assert harness.queue("q").ready == 3
    harness.advance(0.2)
    assert drained(harness, "q") == [b"long"]


def test_a_stage_is_older_than_the_messages_in_it(harness: Harness) -> None:
    harness.vhost.declare_queue("q", durable=True)
    sink = Sink(harness)
    stage = sink.stage("T", 0, b"short lived", expiration="1000")
    harness.advance(1800)
    sink.commit("T", 0, stage)
    harness.advance(0.9)
    assert harness.queue("q").ready == 1
    harness.advance(0.2)
    assert harness.queue("q").ready == 0


def test_messages_that_are_to_wait_do(harness: Harness, publish: Publish) -> None:
    harness.vhost.declare_exchange("later", "x-delayed-message", durable=True, arguments={"x-delayed-type": "fanout"})
    bind(harness, "later", "q")
    run = rows(address("later"), b"later", headers={"x-delay": "5000"}) + rows(address("later"), b"now")
    assert publish(harness, run) == (2, 0, 0)
    assert drained(harness, "q") == [b"now"]
    harness.advance(5)
    assert drained(harness, "q") == [b"later"]


def test_copies_go_to_the_keys_they_name_and_blind_ones_are_not_seen(harness: Harness, publish: Publish) -> None:
    for queue in ("q", "r", "s"):
        harness.vhost.declare_queue(queue, durable=True)
    publish(harness, rows(address(), b"1", headers={"CC": ["r"], "BCC": ["s"]}))
    taken = harness.queue("r").get(True)
    assert taken is not None
    assert properties_of(taken.message[0]).headers == {"CC": ["r"]}
    assert (drained(harness, "q"), drained(harness, "s")) == ([b"1"], [b"1"])


def test_duplicates_are_dropped_where_a_queue_asks_for_it(harness: Harness, publish: Publish) -> None:
    harness.vhost.declare_queue("q", durable=True, arguments=SEEN)
    run = [row(b"%d" % number, address(), message_id=str(number % 2)) for number in range(4)]
    assert publish(harness, run) == (4, 0, 0)
    assert drained(harness, "q") == [b"0", b"1"]


SEEN = {"x-message-deduplication": True, "x-deduplication-header": "message-id"}
FULL = {"x-max-length": 2, "x-overflow": "reject-publish"}
TO_DEAD = {"x-overflow": "reject-publish-dlx", "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


def test_a_full_queue_refuses_what_comes_directly(harness: Harness) -> None:
    harness.vhost.declare_queue("q", durable=True, arguments=FULL)
    assert directly(harness, rows(address(), b"1", b"2", b"3")) == (3, 0, 1)
    assert drained(harness, "q") == [b"1", b"2"]


def test_a_full_queue_takes_what_was_committed(harness: Harness) -> None:
    harness.vhost.declare_queue("q", durable=True, arguments=FULL)
    by_a_stage(harness, rows(address(), b"1", b"2", b"3"))
    assert drained(harness, "q") == [b"1", b"2", b"3"]


def test_a_full_queue_with_dead_letters_sends_them_there(harness: Harness, publish: Publish) -> None:
    harness.vhost.declare_queue("dead", durable=True)
    harness.vhost.declare_queue("q", durable=True, arguments={**FULL, **TO_DEAD})
    publish(harness, rows(address(), b"1", b"2", b"3"))
    assert (drained(harness, "q"), drained(harness, "dead")) == ([b"1", b"2"], [b"3"])


def test_a_queue_that_answers_later_gets_its_messages(harness: Harness) -> None:
    """Those of a commit, which waits for them: test_outboxes.py."""
    harness.vhost.declare_queue("q", durable=True)
    log = make_remote(harness.vhost, "q")
    directly(harness, rows(address(), b"1", b"2"))
    log.let_in()
    harness.turn()
    assert drained(harness, "q") == [b"1", b"2"]


def test_an_exchange_that_is_gone_when_a_stage_is_committed_leads_nowhere(harness: Harness) -> None:
    harness.vhost.declare_exchange("ex")
    sink = Sink(harness)
    stage = sink.stage("T", 0, b"1", exchange="ex")
    harness.vhost.delete_exchange("ex")
    assert sink.commit("T", 0, stage)[:3] == (False, 1, 1)


def test_what_an_exchange_minds_only_after_staging_is_dropped_and_the_rest_arrives(harness: Harness) -> None:
    harness.vhost.declare_exchange("ex", "fanout")
    sink = Sink(harness)
    stage = sink.begin()
    to = address("ex")
    sink.add(stage, [row(b"bad", to, headers={"x-delay": 1 << 60}), row(b"good", to)])
    id_ = sink.finish(stage)
    harness.vhost.delete_exchange("ex")
    harness.vhost.declare_exchange("ex", "x-delayed-message", arguments={"x-delayed-type": "fanout"})
    bind(harness, "ex", "q")
    with pytest.raises(PreconditionFailed):
        directly(harness, [row(b"bad", to, headers={"x-delay": 1 << 60})])
    assert sink.commit("T", 0, id_)[:3] == (False, 2, 1)
    assert drained(harness, "q") == [b"good"]


def test_a_new_binding_counts_at_once(harness: Harness) -> None:
    inflow = Inflow(harness.vhost)
    bind(harness, "amq.direct", "q", "k")
    run = rows(address("amq.direct", "k"), b"1")
    inflow.publish(run, Look.PLAIN, has_traits=True)
    bind(harness, "amq.direct", "r", "k")
    inflow.publish(run, Look.PLAIN, has_traits=True)
    harness.vhost.delete_queue("q")
    inflow.publish(run, Look.PLAIN, has_traits=True)
    harness.turn()
    assert drained(harness, "r") == [b"1", b"1"]


def test_messages_are_looked_at_in_stretches() -> None:
    to = address()
    plain, quick, close = row(b"", to), row(b"", to, priority=1), row(b"", to, user_id="me")
    seen, rest = [], [plain, plain, quick, plain, close, close, quick]
    while rest:
        look, piece = looked_at(rest, 0.0)
        seen.append((look, len(piece)))
        rest = rest[len(piece) :]
    assert seen == [(Look.QUICK, 4), (Look.CLOSE, 2), (Look.QUICK, 1)]
    assert looked_at([plain, plain], 0.0)[0] is Look.PLAIN


def test_what_is_handed_on_at_once_is_bounded_by_number_and_bytes() -> None:
    to = address()
    assert len(front([row(b"", to)] * 10_000)) == 4096
    assert len(front([row(bytes(RUN_BYTES // 4), to)] * 10)) == 3
    assert len(front([row(bytes(2 * RUN_BYTES), to)] * 10)) == 1
    assert front([]) == []
