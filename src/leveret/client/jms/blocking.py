"""The same face for programs without an event loop: the same names, as ordinary functions, for any thread.

with blocking.ConnectionFactory("amqp://localhost").create_connection() as connection:
    session = connection.create_session(AckMode.AUTO)
    consumer = session.create_consumer(session.create_queue("orders"))
    connection.start()
    message = consumer.receive(timeout=5)

The asyncio objects live on the thread of the client's loop, which takes what the broker pushes and hands it on to the
line of each consumer. ``receive`` waits there. Listeners run in a thread of their session, one message at a time, so
the listeners of one session never run at once and those of different sessions do.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self, TypedDict, TypeVar, Unpack

from leveret.client.jms import connection as asynchronous
from leveret.client.jms import factory
from leveret.client.jms.ack_modes import AckMode
from leveret.client.jms.blocking_session import Session
from leveret.client.jms.destinations import Layout
from leveret.client.jms.redelivery import RedeliveryPolicy
from leveret.client.jms.timing import Clock
from leveret.client.loop_thread import LoopThread
