"""The blocking face among many threads."""

from __future__ import annotations

import queue
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import patch

import pytest

import leveret
from leveret.client.jms import blocking as jms

PATIENCE = 20
ORDERS = jms.Queue("orders")


def test_a_thread_that_has_the_number_of_a_listeners_is_no_listener(leveret_broker: leveret.Broker) -> None:
    """Numbers of threads are given out again: who closes later must not be taken for a listener that has returned."""
    with jms.ConnectionFactory(leveret_broker.amqp_url).create_connection() as connection:
        connection.start()
        numbers: queue.Queue[int] = queue.Queue()
        session = connection.create_session()
        session.create_consumer(ORDERS, listener=lambda _: numbers.put(threading.get_ident()))
        session.create_producer(ORDERS).send(session.create_text_message("x"))
        number = numbers.get(timeout=PATIENCE)
        session.close()
        with patch("leveret.client.jms.blocking.threading.get_ident", return_value=number):
            connection.close()
        assert connection.is_closed


@pytest.mark.feature("S1-04", "S3-23")
def test_threads_share_a_session_and_a_connection(leveret_broker: leveret.Broker) -> None:
    """Producers and consumers of many threads; each message is received once."""
    with jms.ConnectionFactory(leveret_broker.amqp_url, prefetch=5).create_connection() as connection:
        connection.start()
        shared = connection.create_session(jms.AckMode.CLIENT)
        producer = shared.create_producer(ORDERS)

        def send(number: int) -> None:
            producer.send(shared.create_text_message(str(number)))

        got: list[object] = []

        def receive(_: int) -> None:
            with shared.create_consumer(ORDERS) as consumer:
                while len(got) < 100:
                    message = consumer.receive(timeout=0.1)
                    if message is not None:
                        got.append(message.body)
                        message.acknowledge()

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(send, range(100)))
            list(threads.map(receive, range(4)))
        assert sorted(map(str, got), key=int) == [str(number) for number in range(100)]


GOES_ON = """
import queue, sys, threading
from leveret.client.jms import blocking as jms

connection = jms.ConnectionFactory(sys.argv[1]).create_connection()
heard = queue.SimpleQueue()
connection.create_session().create_consumer(jms.Queue("q"), listener=lambda message: heard.put(message.text))
connection.start()

def work():
    threading.main_thread().join()
    session = connection.create_session()
    for text in ("one", "two"):
        session.create_producer(jms.Queue("q")).send(session.create_text_message(text))
    print(heard.get(timeout=15), heard.get(timeout=15))
    connection.close()

threading.Thread(target=work).start()
"""

FINISHES = """
import sys, threading
from leveret.client.jms import blocking as jms

connection = jms.ConnectionFactory(sys.argv[1]).create_connection()
session = connection.create_session()
begun = threading.Event()

def listen(message):
    begun.set()
    threading.main_thread().join()
    print("to its end", flush=True)

session.create_consumer(jms.Queue("q"), listener=listen)
session.create_producer(jms.Queue("q")).send(session.create_text_message("x"))
connection.start()
begun.wait(15)
"""


@pytest.mark.parametrize(("program", "says"), [(GOES_ON, "one two\n"), (FINISHES, "to its end\n")])
@pytest.mark.feature("S3-23")
def test_listeners_outlive_the_main_thread(leveret_broker: leveret.Broker, program: str, says: str) -> None:
    """As long as another thread lives; and one that runs as the program ends is let finish."""
    command = [sys.executable, "-c", program, leveret_broker.amqp_url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.stdout, done.returncode) == (says, 0), done.stderr


@pytest.mark.feature("S3-21")
def test_what_a_listener_could_not_be_called_with_was_not_tried(leveret_broker: leveret.Broker) -> None:
    """As at the end of a program, whose threads end before its connections."""
    with jms.ConnectionFactory(leveret_broker.amqp_url).create_connection() as connection:
        connection.start()
        counts: queue.SimpleQueue[int] = queue.SimpleQueue()
        session, other = connection.create_session(), connection.create_session()
        consumer = session.create_consumer(ORDERS, listener=lambda message: counts.put(message.delivery_count))
        session.end_thread()
        other.create_producer(ORDERS).send(other.create_text_message("x"))
        while not consumer.core.unconsumed or consumer.core.listener is not None:
            other.create_browser(jms.Queue("another")).next()
        consumer.listener = lambda message: counts.put(message.delivery_count)
        assert counts.get(timeout=PATIENCE) == 1


@pytest.mark.feature("S3-21")
def test_a_listener_that_exits_has_failed_and_no_more(leveret_broker: leveret.Broker) -> None:
    """Sys.exit() in its thread ends neither the client nor the session."""
    policy = jms.RedeliveryPolicy(initial_delay=0)
    with jms.ConnectionFactory(leveret_broker.amqp_url, redelivery=policy).create_connection() as connection:
        connection.start()
        counts: queue.SimpleQueue[int] = queue.SimpleQueue()
        session = connection.create_session()

        def leave(message: jms.Message) -> None:
            counts.put(message.delivery_count)
            if message.delivery_count == 1:
                sys.exit("enough")

        session.create_consumer(ORDERS, listener=leave)
        session.create_producer(ORDERS).send(session.create_text_message("x"))
        assert [counts.get(timeout=PATIENCE) for _ in range(2)] == [1, 2]


@pytest.mark.feature("S3-17")
def test_closing_what_is_closed_is_no_error(leveret_broker: leveret.Broker) -> None:
    """Nor with the connection, whether or not another one keeps the client's loop alive."""
    factory = jms.ConnectionFactory(leveret_broker.amqp_url)
    for keeps in (True, False):
        keeper = factory.create_connection() if keeps else None
        connection = factory.create_connection()
        session = connection.create_session()
        parts = [
            session.create_consumer(ORDERS),
            session.create_consumer(ORDERS, prefetch=0),
            session.create_consumer(jms.Topic("t")),
            session.create_producer(ORDERS),
            session.create_browser(ORDERS),
            session.create_requestor(ORDERS),
            session,
            connection,
        ]
        connection.close()
        for part in parts:
            part.close()
        if keeper is not None:
            keeper.close()
