"""The blocking face: the same things from threads."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator

import pytest

import leveret
from leveret.client.errors import Closed, ConnectionLost
from leveret.client.jms import IllegalState, InvalidDestination
from leveret.client.jms import blocking as jms
from leveret.client.jms.messages import NON_PERSISTENT
from leveret.errors import AmqpError

PATIENCE = 20
LOOP = "leveret-client"  # the name of its thread
ORDERS = jms.Queue("orders")


@pytest.fixture
def connection(leveret_broker: leveret.Broker) -> Iterator[jms.Connection]:
    with jms.ConnectionFactory(leveret_broker.amqp_url, client_id="me").create_connection() as made:
        yield made


def body(message: jms.Message | None) -> object:
    assert message is not None
    return message.body


def send(connection: jms.Connection, *texts: str, to: str = "orders") -> None:
    with connection.create_session() as session, session.create_producer(jms.Queue(to)) as producer:
        for text in texts:
            producer.send(session.create_text_message(text))


def ready(broker: leveret.Broker, name: str = "orders") -> tuple[int, int]:
    found = broker.call(lambda: broker.node.broker.vhost("/").queues[name])
    return broker.call(lambda: (found.ready, found.unacked))


# ---- receive


@pytest.mark.feature("S1-01", "S1-05")
def test_receive_blocks_until_a_message_comes(connection: jms.Connection) -> None:
    """S1-05."""
    consumer = connection.create_session().create_consumer(ORDERS)
    connection.start()
    came: queue.SimpleQueue[object] = queue.SimpleQueue()
    waiting = threading.Thread(target=lambda: came.put(body(consumer.receive(PATIENCE))))
    waiting.start()
    assert came.empty()
    send(connection, "hello")
    assert came.get(timeout=PATIENCE) == "hello"
    waiting.join()


def test_receive_gives_up_in_time_and_looks_without_waiting(connection: jms.Connection) -> None:
    session = connection.create_session()
    consumer = session.create_consumer(ORDERS, prefetch=0)
    connection.start()
    assert consumer.receive(0.01) is None
    assert consumer.receive_no_wait() is None
    send(connection, "x")
    assert body(consumer.receive_no_wait()) == "x"


def test_all_kinds_of_messages_and_settings_of_a_producer(connection: jms.Connection) -> None:
    session = connection.create_session()
    producer = session.create_producer(session.create_queue("orders"))
    producer.delivery_mode, producer.priority = NON_PERSISTENT, 2
    made = [
        session.create_message(),
        session.create_text_message("t"),
        session.create_bytes_message(b"b"),
        session.create_map_message({"m": 1}),
    ]
    for message in made:
        producer.send(message)
    producer.send(session.create_text_message("urgent"), priority=9)
    consumer = session.create_consumer(ORDERS)
    connection.start()
    came = [consumer.receive(PATIENCE) for _ in range(5)]
    assert [body(message) for message in came] == [None, "t", b"b", {"m": 1}, "urgent"]
    assert [message.priority for message in came if message] == [2, 2, 2, 2, 9]
    assert {message.delivery_mode for message in came if message} == {NON_PERSISTENT}
    producer.close()
    with pytest.raises(IllegalState, match="closed"):
        producer.send(session.create_text_message("late"))


def test_a_loop_over_a_consumer_ends_when_it_is_closed(connection: jms.Connection) -> None:
    consumer = connection.create_session().create_consumer(ORDERS)
    connection.start()
    send(connection, "1", "2", "3")
    seen = []
    for message in consumer:
        seen.append(message.body)
        if len(seen) == 3:
            closing = threading.Thread(target=consumer.close)
            closing.start()
    closing.join()
    assert seen == ["1", "2", "3"]


@pytest.mark.feature("S1-09", "S1-15")
def test_acknowledge_from_another_thread(connection: jms.Connection, leveret_broker: leveret.Broker) -> None:
    """S1-15: of a received message, in the modes that leave it to the application. Whoever calls, it is done on
    the thread of the loop."""
    acked_on: set[str] = set()
    session = connection.create_session(jms.AckMode.CLIENT)
    single = connection.create_session(jms.AckMode.INDIVIDUAL)
    for each in (session, single):
        each.ack_listeners.append(lambda event: acked_on.add(threading.current_thread().name))
    connection.start()
    send(connection, "1", "2", "3")
    consumer = session.create_consumer(ORDERS)
    messages = [consumer.receive(PATIENCE) for _ in range(3)]
    assert messages[1] is not None
    assert ready(leveret_broker) == (0, 3)
    acking = threading.Thread(target=messages[1].acknowledge)
    acking.start()
    acking.join()
    session.close()
    assert ready(leveret_broker) == (0, 0)
    send(connection, "4", "5")
    consumer = single.create_consumer(ORDERS)
    first, second = consumer.receive(PATIENCE), consumer.receive(PATIENCE)
    assert first is not None
    assert second is not None
    second.acknowledge()
    single.close()
    assert ready(leveret_broker) == (1, 0)
    assert acked_on == {LOOP}


@pytest.mark.feature("S3-16")
def test_transactions_of_a_session(connection: jms.Connection, leveret_broker: leveret.Broker) -> None:
    session = connection.create_session(jms.AckMode.SESSION_TRANSACTED)
    assert session.is_transacted
    producer = session.create_producer(ORDERS)
    producer.send(session.create_text_message("dropped"))
    session.rollback()
    producer.send(session.create_text_message("kept"))
    session.commit()
    assert ready(leveret_broker) == (1, 0)
    with connection.create_session() as other, pytest.raises(IllegalState):
        other.commit()


# ---- listeners


@pytest.mark.feature("S1-03")
def test_what_was_pushed_is_handed_over_once_the_connection_starts(
    connection: jms.Connection, leveret_broker: leveret.Broker
) -> None:
    """The receiver takes pushed messages by itself; nobody has to ask for them."""
    came: queue.SimpleQueue[object] = queue.SimpleQueue()
    send(connection, "1", "2")
    session = connection.create_session()
    session.create_consumer(ORDERS, listener=lambda message: came.put(message.body))
    session.recover()  # a round trip: by now the messages are here
    assert ready(leveret_broker) == (0, 2)
    assert came.empty()
    connection.start()
    assert [came.get(timeout=PATIENCE) for _ in range(2)] == ["1", "2"]
    connection.stop()
    send(connection, "3")
    assert came.empty()
    connection.start()
    assert came.get(timeout=PATIENCE) == "3"


@pytest.mark.feature("S1-04", "S3-23")
def test_each_consumer_has_its_own_line(connection: jms.Connection) -> None:
    """S3-23: sessions work at the same time, in threads of their own; a listener that is stuck holds up its own
    session only."""
    connection.start()
    stuck, released = threading.Event(), threading.Event()
    threads: dict[str, set[int]] = {"slow": set(), "quick": set()}
    came: queue.SimpleQueue[object] = queue.SimpleQueue()

    def slow(message: jms.Message) -> None:
        threads["slow"].add(threading.get_ident())
        stuck.set()
        assert released.wait(PATIENCE)
        came.put(message.body)

    def quick(message: jms.Message) -> None:
        threads["quick"].add(threading.get_ident())
        came.put(message.body)

    connection.create_session().create_consumer(jms.Queue("slow"), listener=slow)
    both = connection.create_session()
    both.create_consumer(jms.Queue("quick"), listener=quick)
    both.create_consumer(jms.Queue("quick too"), listener=quick)
    send(connection, "s1", "s2", to="slow")
    assert stuck.wait(PATIENCE)
    send(connection, "q1", "q2", to="quick")
    send(connection, "q3", to="quick too")
    assert {came.get(timeout=PATIENCE) for _ in range(3)} == {"q1", "q2", "q3"}
    released.set()
    assert [came.get(timeout=PATIENCE) for _ in range(2)] == ["s1", "s2"]
    assert len(threads["slow"]) == len(threads["quick"]) == 1
    assert not threads["slow"] & threads["quick"]
    assert threading.get_ident() not in threads["slow"] | threads["quick"]


@pytest.mark.feature("S4-51")
def test_a_message_is_acked_after_its_listener_returned(
    connection: jms.Connection, leveret_broker: leveret.Broker
) -> None:
    during: queue.SimpleQueue[tuple[int, int]] = queue.SimpleQueue()
    session = connection.create_session()
    acked: queue.SimpleQueue[object] = queue.SimpleQueue()
    session.ack_listeners.append(lambda event: acked.put(event.type.name))
    session.create_consumer(ORDERS, listener=lambda message: during.put(ready(leveret_broker)))
    connection.start()
    send(connection, "x")
    assert during.get(timeout=PATIENCE) == (0, 1)
    assert acked.get(timeout=PATIENCE) == "STANDARD"
    session.close()
    assert ready(leveret_broker) == (0, 0)


@pytest.mark.feature("S3-15", "S3-21")
def test_a_listener_that_raises_gets_its_message_again(leveret_broker: leveret.Broker) -> None:
    """S3-21."""
    policy = jms.RedeliveryPolicy(initial_delay=0)
    counts: queue.SimpleQueue[int] = queue.SimpleQueue()

    def fail_once(message: jms.Message) -> None:
        counts.put(message.delivery_count)
        if message.delivery_count == 1:
            raise ValueError("not yet")

    with jms.ConnectionFactory(leveret_broker.amqp_url, redelivery=policy).create_connection() as connection:
        connection.create_session().create_consumer(ORDERS, listener=fail_once)
        connection.start()
        send(connection, "x")
        assert [counts.get(timeout=PATIENCE) for _ in range(2)] == [1, 2]


def test_a_listener_may_send_and_acknowledge_but_not_close_its_own_session(connection: jms.Connection) -> None:
    session = connection.create_session(jms.AckMode.CLIENT)
    acked_on: queue.SimpleQueue[str] = queue.SimpleQueue()
    session.ack_listeners.append(lambda event: acked_on.put(threading.current_thread().name))
    producer = session.create_producer(jms.Queue("answers"))
    outcomes: queue.SimpleQueue[object] = queue.SimpleQueue()
    consumer = session.create_consumer(ORDERS)

    def handle(message: jms.Message) -> None:
        producer.send(session.create_text_message(f"re: {message.body}"))
        message.acknowledge()
        for close in (session.close, connection.close, connection.stop, consumer.close):
            try:
                close()
                outcomes.put("no error")
            except IllegalState as problem:
                outcomes.put("would deadlock" in str(problem))

    consumer.listener = handle
    connection.start()
    send(connection, "x")
    assert [outcomes.get(timeout=PATIENCE) for _ in range(4)] == [True] * 4
    assert acked_on.get(timeout=PATIENCE) == LOOP
    answers = connection.create_session().create_consumer(jms.Queue("answers"))
    assert body(answers.receive(PATIENCE)) == "re: x"


@pytest.mark.feature("S1-02")
def test_receive_and_a_listener_exclude_each_other(connection: jms.Connection) -> None:
    session = connection.create_session()
    listening, receiving = session.create_consumer(ORDERS, listener=print), session.create_consumer(ORDERS)
    connection.start()
    with pytest.raises(IllegalState, match="exclude each other"):
        listening.receive(0)
    assert receiving.receive(0) is None
    with pytest.raises(IllegalState, match="exclude each other"):
        receiving.listener = print
    assert receiving.listener is None
    listening.listener = None
    assert listening.listener is None


# ---- the rest of a session


def test_topics_temporary_destinations_and_browsers(connection: jms.Connection) -> None:
    session = connection.create_session()
    connection.start()
    durable = session.create_durable_subscriber(session.create_topic("t.>"), "s", "k = 1")
    temporary_topic, temporary_queue = session.create_temporary_topic(), session.create_temporary_queue()
    plain, taken = session.create_consumer(temporary_topic), session.create_consumer(temporary_queue)
    free = session.create_producer()
    message = session.create_text_message("x")
    message.properties["k"] = 1
    for place in (jms.Topic("t.a"), temporary_topic, temporary_queue):
        free.send(message, place)
    assert [body(each.receive(PATIENCE)) for each in (durable, plain, taken)] == ["x"] * 3
    durable.close()
    taken.close()
    session.unsubscribe("s")
    temporary_queue.delete()
    with pytest.raises(InvalidDestination, match="was deleted"):
        session.create_consumer(temporary_queue)
    send(connection, "1", "2")
    with session.create_browser(ORDERS) as browser:
        assert [each.body for each in browser] == ["1", "2"]


def test_requests_of_many_threads_at_once(connection: jms.Connection) -> None:
    service = connection.create_session()
    answer_with = service.create_producer()

    def square(message: jms.Message) -> None:
        answer = service.create_text_message(str(int(str(message.body)) ** 2))
        answer.correlation_id = message.correlation_id
        answer_with.send(answer, message.reply_to)

    service.create_consumer(jms.Queue("squares"), listener=square)
    connection.start()
    session = connection.create_session()
    answers: queue.SimpleQueue[tuple[int, object]] = queue.SimpleQueue()
    with session.create_requestor(jms.Queue("squares")) as requestor:

        def ask(number: int) -> None:
            answers.put((number, requestor.request(session.create_text_message(str(number)), PATIENCE).body))

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(answers.get(timeout=1) for _ in range(8)) == [(number, str(number**2)) for number in range(8)]


# ---- its end


def test_closing_wakes_who_waits_and_ends_the_threads(leveret_broker: leveret.Broker) -> None:
    connection = jms.ConnectionFactory(leveret_broker.amqp_url).create_connection()
    session = connection.create_session()
    consumer = session.create_consumer(ORDERS)
    heard = threading.Event()
    connection.create_session().create_consumer(jms.Queue("other"), listener=lambda message: heard.set())
    connection.start()
    send(connection, "x", to="other")
    assert heard.wait(PATIENCE)
    waiting = threading.Thread(target=consumer.receive)
    waiting.start()
    connection.close()
    waiting.join(PATIENCE)
    assert not waiting.is_alive()
    connection.close()
    assert connection.is_closed
    for call in (connection.start, connection.create_session, consumer.receive):
        with pytest.raises((IllegalState, Closed)):
            call()
    names = [thread.name for thread in threading.enumerate()]
    assert not [name for name in names if name.startswith(("leveret-client", "leveret-session"))]


@pytest.mark.feature("S3-09")
def test_the_exception_listener_hears_of_a_lost_connection(leveret_broker: leveret.Broker) -> None:
    """Listeners are told; in a thread where they may call anything."""
    told: queue.SimpleQueue[Exception] = queue.SimpleQueue()
    connection = jms.ConnectionFactory(leveret_broker.amqp_url).create_connection()

    def trouble(problem: Exception) -> None:
        connection.close()
        told.put(problem)

    connection.exception_listener = trouble
    assert connection.exception_listener is trouble
    connection.start()
    leveret_broker.stop()
    assert isinstance(told.get(timeout=PATIENCE), AmqpError | ConnectionLost)


@pytest.mark.feature("S4-63")
def test_a_factory_takes_parts_of_an_address(leveret_broker: leveret.Broker) -> None:
    uri = leveret_broker.amqp_url
    factory = jms.ConnectionFactory(uri, user="nobody", password="wrong")
    with pytest.raises(AmqpError):
        factory.create_connection()
    with factory.create_connection("guest", leveret_broker.password) as connection:
        assert not connection.is_closed
