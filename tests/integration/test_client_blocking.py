"""The blocking face: the same calls as ordinary functions, from any thread; how it publishes, and how it ends."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from queue import Empty, Queue

import pytest

import leveret
from leveret.client import (
    ClientError,
    Closed,
    ConnectionLost,
    Nacked,
    Properties,
    Returned,
    Unroutable,
    blocking,
)
from leveret.errors import ConnectionForced, FrameError, NotFound, PreconditionFailed
from tests.support.client_scenarios import PATIENCE, in_thread, queue_with
from tests.support.raw_client import eventually


@pytest.fixture
def connection(broker: leveret.Broker) -> Iterator[blocking.Connection]:
    with blocking.connect(broker.amqp_url) as made:
        yield made


@pytest.fixture
def channel(connection: blocking.Connection) -> blocking.Channel:
    return connection.channel()


# ---- calls


@pytest.mark.feature("S4-04", "S4-05")
def test_all_calls_under_the_names_of_the_asyncio_face(connection: blocking.Connection) -> None:
    channel = connection.channel()
    channel.declare_exchange("blocking.first", "fanout")
    channel.declare_exchange("blocking.second", "topic")
    channel.bind_exchange("blocking.second", "blocking.first")
    queue = channel.declare_queue("blocking.q", arguments={"x-max-length": 10}).queue
    channel.bind_queue(queue, "blocking.second", "a.*")
    channel.confirm_select()
    channel.publish(b"1", "blocking.first", "a.b", Properties(message_id="id"))
    fetched = channel.get(queue)
    assert fetched is not None
    assert (fetched.body, fetched.properties.message_id, fetched.left) == (b"1", "id", 0)
    fetched.nack(requeue=True)
    channel.recover()
    channel.qos(1)
    channel.flow(True)
    assert channel.purge_queue(queue) == 1
    channel.unbind_queue(queue, "blocking.second", "a.*")
    channel.unbind_exchange("blocking.second", "blocking.first")
    channel.publish(b"goes nowhere", "blocking.first", "a.b")
    assert channel.delete_queue(queue) == 0
    channel.delete_exchange("blocking.first")
    channel.delete_exchange("blocking.second")
    with connection.channel() as transacted:
        mine = queue_with(transacted)
        transacted.select_transactions()
        transacted.send(b"no", "", mine)
        transacted.rollback()
        transacted.send(b"yes", "", mine)
        transacted.commit()
        message = transacted.get(mine, no_ack=True)
        assert message is not None
        assert message.body == b"yes"
    assert transacted.is_closed
    connection.update_secret("guest")
    assert connection.server_properties["capabilities"]
    assert not connection.is_blocked


def test_errors_cross_threads_as_themselves_and_the_reason_stays(connection: blocking.Connection) -> None:
    channel = connection.channel()
    with pytest.raises(NotFound, match="no queue 'nope'") as caught:
        channel.declare_queue("nope", passive=True)
    assert caught.value.code == 404
    for call in (lambda: channel.send(b"x"), lambda: channel.ack(1), lambda: channel.qos(1), lambda: channel.get("q")):
        with pytest.raises(NotFound):
            call()
    connection.channel().qos(1)


def test_an_ack_that_is_refused_is_told_by_the_next_call(channel: blocking.Channel) -> None:
    channel.ack(99)
    with pytest.raises(PreconditionFailed, match="unknown delivery tag 99"):
        channel.qos(1)


def test_what_cannot_be_encoded_is_refused_where_it_is_sent(channel: blocking.Channel) -> None:
    with pytest.raises(TypeError):
        channel.send("text", "", "q")  # type: ignore[arg-type]
    with pytest.raises(FrameError, match="at most 255 fit"):
        channel.send(b"x", "", "k" * 256)
    channel.qos(1)


# ---- publishing


def test_what_is_sent_may_be_changed_afterwards(channel: blocking.Channel) -> None:
    queue = queue_with(channel)
    properties, body = Properties(headers={"n": 0}), bytearray(b"0")
    assert properties.headers is not None
    for number in range(100):
        properties.headers["n"] = number
        body[:] = str(number).encode()
        channel.send(body, "", queue, properties)  # type: ignore[arg-type]
    with channel.consume(queue, no_ack=True) as consumer:
        for number in range(100):
            message = consumer.next(PATIENCE)
            assert message is not None
            assert (message.body, message.headers) == (str(number).encode(), {"n": number})


def test_send_gives_a_future_and_publish_waits_for_it(channel: blocking.Channel) -> None:
    channel.confirm_select()
    assert channel.confirms is not None
    arguments = {"x-max-length": 2, "x-overflow": "reject-publish"}
    queue = channel.declare_queue(exclusive=True, arguments=arguments).queue
    channel.publish(b"1", "", queue)
    done: Queue[object] = Queue()
    answers = [channel.send(b"x", "", queue) for _ in range(2)]
    assert answers[1] is not None
    answers[1].add_done_callback(lambda answer: done.put(answer.exception()))
    channel.confirms.all_settled()
    assert isinstance(done.get(timeout=PATIENCE), Nacked)
    assert answers[0] is not None
    assert answers[0].result() is None
    with pytest.raises(Nacked):
        channel.publish(b"one too many", "", queue)
    with pytest.raises(Unroutable, match="key 'nowhere'"):
        channel.publish(b"x", "", "nowhere", mandatory=True)
    assert channel.confirms.open == 0


def test_a_thread_that_waits_until_all_is_settled_is_told_of_what_failed(channel: blocking.Channel) -> None:
    channel.confirm_select()
    assert channel.confirms is not None
    returned: Queue[Returned] = Queue()
    channel.on_return = returned.put
    channel.send(b"x", "", "nowhere", mandatory=True)
    with pytest.raises(Unroutable, match="key 'nowhere'"):
        channel.confirms.all_settled()
    assert returned.get(timeout=PATIENCE).body == b"x"
    channel.confirms.all_settled()
    with pytest.raises(Unroutable):
        channel.publish(b"x", "", "nowhere", mandatory=True)
    channel.confirms.all_settled()  # its publisher has heard it


def test_a_return_reaches_the_callback_which_must_not_wait(channel: blocking.Channel) -> None:
    returned: Queue[object] = Queue()

    def come_back(message: object) -> None:
        returned.put(message)
        try:
            channel.qos(1)
        except ClientError as problem:
            returned.put(problem)

    channel.on_return = come_back
    assert channel.send(b"x", "", "nowhere", mandatory=True) is None
    assert returned.get(timeout=PATIENCE).body == b"x"  # type: ignore[attr-defined]
    assert "would deadlock" in str(returned.get(timeout=PATIENCE))


@pytest.mark.feature("S3-06")
def test_many_threads_on_one_channel_never_mix_their_frames(connection: blocking.Connection) -> None:
    channel = connection.channel()
    channel.confirm_select()
    queue = queue_with(channel)
    outcome: Queue[object] = Queue()

    def publish(mark: int) -> None:
        for number in range(200):
            channel.send(bytes([mark]) * (number * 100), "", queue, Properties(headers={"mark": mark, "n": number}))
        channel.publish(b"", "", queue, Properties(headers={"mark": mark, "n": 200}))

    threads = [in_thread(outcome, lambda mark=mark: publish(mark)) for mark in range(8)]
    for thread in threads:
        thread.join()
    assert [outcome.get() for _ in threads] == [None] * 8
    heard: dict[object, list[object]] = {}
    with channel.consume(queue, no_ack=True) as consumer:
        for _ in range(8 * 201):
            message = consumer.next(PATIENCE)
            assert message is not None
            assert message.body.count(message.headers["mark"]) == len(message.body)  # type: ignore[arg-type]
            heard.setdefault(message.headers["mark"], []).append(message.headers["n"])
    assert heard == {mark: list(range(201)) for mark in range(8)}


def test_a_sender_waits_while_the_broker_takes_nothing_and_goes_on_afterwards() -> None:
    with leveret.Broker() as running, blocking.connect(running.amqp_url) as connection:
        channel = connection.channel()
        channel.declare_queue("filled")
        running.call(lambda: setattr(running.node.broker.memory, "high_watermark", 10_000))
        channel.send(bytes(20_000), "", "filled")  # raises the alarm
        channel.qos(1)
        channel.send(b"", "", "filled")  # blocks the connection
        eventually(lambda: connection.is_blocked)
        outcome: Queue[object] = Queue()
        sent: list[int] = []

        def send_much() -> None:
            for number in range(50):
                channel.send(bytes(1 << 20), "", "filled")
                sent.append(number)

        thread = in_thread(outcome, send_much)
        eventually(lambda: connection.core.is_congested)
        with pytest.raises(Empty):  # it would hold 50 MiB otherwise
            outcome.get(timeout=0.5)
        assert len(sent) < 50
        running.call(lambda: setattr(running.node.broker.memory, "high_watermark", 1 << 40))
        running.vhost().purge_queue("filled")
        assert outcome.get(timeout=PATIENCE) is None
        thread.join()
        assert len(sent) == 50


def test_a_failover_address_is_used_in_the_same_way(broker: leveret.Broker) -> None:
    with blocking.connect(f"failover:({broker.amqp_url})") as connection:
        channel = connection.channel()
        channel.confirm_select()
        queue = queue_with(channel)
        properties = Properties(headers={"n": 0})
        assert properties.headers is not None
        for number in range(50):
            properties.headers["n"] = number
            channel.send(b"x", "", queue, properties)
        channel.publish(b"last", "", queue)
        with pytest.raises(Unroutable):
            channel.publish(b"x", "", "nowhere", mandatory=True)
        with channel.consume(queue) as consumer:
            for number in range(50):
                message = consumer.next(PATIENCE)
                assert message is not None
                assert message.headers["n"] == number
                message.ack()


# ---- ends


def test_a_close_wakes_everybody_who_waits(broker: leveret.Broker) -> None:
    connection = blocking.connect(broker.amqp_url)
    channel = connection.channel()
    queue = queue_with(channel)
    iterated, called = channel.consume(queue), connection.channel()
    called.consume(queue, lambda _: None)
    outcome: Queue[object] = Queue()
    threads = [in_thread(outcome, call) for call in (iterated.next, lambda: list(iterated), called.start_consuming)]
    connection.close()
    connection.close()
    ends = [outcome.get(timeout=PATIENCE) for _ in threads]
    assert sorted(type(end).__name__ for end in ends) == ["Closed", "Closed", "list"]
    for thread in threads:
        thread.join()
    for call in (connection.channel, lambda: channel.qos(1), lambda: channel.send(b"x"), lambda: iterated.next()):
        with pytest.raises(Closed):
            call()


def test_a_broker_that_stops_wakes_everybody_who_waits() -> None:
    running = leveret.Broker()
    running.start()
    connection = blocking.connect(running.amqp_url)
    happened: Queue[str] = Queue()
    connection.listeners.append(lambda happening: happened.put(happening.kind))
    channel = connection.channel()
    consumer = channel.consume(queue_with(channel))
    outcome: Queue[object] = Queue()
    thread = in_thread(outcome, consumer.next)
    running.stop()
    assert isinstance(outcome.get(timeout=PATIENCE), ConnectionForced)
    thread.join()
    with pytest.raises(ConnectionForced):
        channel.publish(b"x")
    assert happened.get(timeout=PATIENCE) == "lost"
    assert connection.is_closed
    connection.close()


def test_nobody_there_leaves_no_thread_behind() -> None:
    with pytest.raises(ConnectionLost, match="no connection to"):
        blocking.connect("amqp://127.0.0.1:1")
    assert not [thread for thread in threading.enumerate() if thread.name == "leveret-client"]


def test_ctrl_c_during_a_wait_leaves_everything_usable(channel: blocking.Channel) -> None:
    queue = queue_with(channel)
    consumer = channel.consume(queue)

    pressing = threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT))

    def wait() -> None:
        pressing.start()
        consumer.next(PATIENCE)

    with pytest.raises(KeyboardInterrupt):
        wait()
    pressing.join()
    channel.send(b"x", "", queue)
    message = consumer.next(PATIENCE)
    assert message is not None
    message.ack()
    channel.qos(1)
