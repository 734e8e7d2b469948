"""The blocking face among many threads."""

from __future__ import annotations

import queue
import threading
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import patch

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
        with patch("leveret.client.jms.blocking_session.threading.get_ident", return_value=number):
            connection.close()
        assert connection.is_closed


def test_s3_23_threads_share_a_session_and_a_connection(leveret_broker: leveret.Broker) -> None:
    """S1-04, S3-23: producers and consumers of many threads; each message is received once."""
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
