"""Brokers in one process keep apart from each other and from everything else in it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import threading
from contextlib import ExitStack
from queue import SimpleQueue

import pytest

import leveret
from leveret.broker.local import Delivered
from leveret.errors import NotFound
from tests.support.peers import PATIENCE, NetworkPeer


@pytest.mark.feature("S4-62")
def test_twenty_brokers_in_one_process_know_nothing_of_each_other() -> None:
    """The same names in each, and every message stays where it was published."""
    with ExitStack() as stack:
        brokers = [stack.enter_context(leveret.Broker()) for _ in range(20)]
        assert len({broker.amqp_url for broker in brokers}) == 20
        boxes: list[SimpleQueue[Delivered]] = []
        for number, broker in enumerate(brokers):
            local = broker.vhost()
            local.declare_exchange("x", "fanout" if number % 2 else "direct")
            local.declare_queue("q")
            local.declare_queue("kept")
            local.bind("q", "x", "k")
            boxes.append(SimpleQueue())
            local.consume("q", boxes[-1].put, tag="same", auto_ack=True)
        for number, broker in enumerate(brokers):
            peer = NetworkPeer(broker.amqp_url)
            for _ in range(3):
                peer.publish("x", "k", str(number).encode())
            peer.publish("", "kept", str(number).encode())
            peer.close()
        for number, (broker, box) in enumerate(zip(brokers, boxes, strict=True)):
            assert [box.get(timeout=PATIENCE).body for _ in range(3)] == [str(number).encode()] * 3
            got = broker.vhost().get("kept", auto_ack=True)
            assert got is not None
            assert got.body == str(number).encode()
            assert box.empty()


@pytest.mark.feature("S4-62")
def test_brokers_can_be_driven_at_once_and_stopped_one_by_one() -> None:
    """The end of one is not noticed by another."""
    brokers = [leveret.Broker().start() for _ in range(4)]

    def work(broker: leveret.Broker) -> None:
        local = broker.vhost()
        local.declare_queue("q")
        for number in range(100):
            local.publish("", "q", str(number).encode())
        got = [delivered.body for _ in range(100) if (delivered := local.get("q", auto_ack=True)) is not None]
        if got == [str(number).encode() for number in range(100)]:
            fine.append(broker)

    fine: list[leveret.Broker] = []
    threads = [threading.Thread(target=work, args=(broker,)) for broker in brokers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(fine) == 4
    while brokers:
        brokers.pop().stop()
        for broker in brokers:
            assert broker.vhost().publish("", "q", b"m")


@pytest.mark.feature("S4-62")
def test_each_broker_has_a_clock_of_its_own() -> None:
    """An hour in one is no time at all in the other."""
    with leveret.Broker(clock=leveret.FrozenClock()) as fast, leveret.Broker(clock=leveret.FrozenClock()) as slow:
        for broker in (fast, slow):
            broker.vhost().declare_queue("q", arguments={"x-expires": 1000})
        fast.clock.advance(3600)
        slow.vhost().message_count("q")
        with pytest.raises(NotFound):
            fast.vhost().message_count("q")


@pytest.mark.feature("S4-62")
def test_a_callback_may_call_into_another_broker() -> None:
    """A bridge between two."""
    with leveret.Broker() as left, leveret.Broker() as right:
        here, there = left.vhost(), right.vhost()
        came: SimpleQueue[Delivered] = SimpleQueue()
        here.declare_queue("q")
        there.declare_queue("q")
        here.consume("q", lambda delivered: there.publish("", "q", delivered.body) and None, auto_ack=True)
        there.consume("q", came.put, auto_ack=True)
        for number in range(20):
            here.publish("", "q", str(number).encode())
        assert [int(came.get(timeout=PATIENCE).body) for _ in range(20)] == list(range(20))


# ---- the process around it


def run_apart(code: str) -> str:
    """Run code in a Python of its own, where every warning is an error; what it printed."""
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


WORK = """
        local = broker.vhost()
        local.declare_queue("q")
        came = queue.SimpleQueue()
        local.consume("q", came.put)
        local.publish("", "q", b"m")
        local.ack(came.get(timeout=10).delivery_tag)
        broker.clock.advance(1)
"""


@pytest.mark.feature("S4-62")
def test_a_broker_changes_nothing_in_the_process_around_it() -> None:
    """Garbage collector, signal handlers, logging, loop policy, hooks, threads and files are as they were."""
    code = """
    import asyncio, faulthandler, gc, logging, os, queue, resource, signal, sys, threading, warnings
    import leveret, leveret.embedded

    def state():
        return {
            "gc": (gc.get_threshold(), gc.isenabled(), gc.get_freeze_count(), list(gc.callbacks)),
            "signals": [signal.getsignal(number) for number in sorted(signal.valid_signals())],
            "wakeup": signal.set_wakeup_fd(-1),
            "root handlers": list(logging.getLogger().handlers),
            "levels": (logging.getLogger().level, logging.getLogger("leveret").level, logging.raiseExceptions),
            "policy": type(asyncio.get_event_loop_policy()),
            "hooks": (sys.excepthook, threading.excepthook, sys.getswitchinterval(), sys.gettrace(), sys.getprofile()),
            "filters": list(warnings.filters),
            "files": resource.getrlimit(resource.RLIMIT_NOFILE),
            "folder": os.getcwd(),
            "environment": dict(os.environ),
            "mask": os.umask(0o022),
        }

    def what_is_left():
        return (sorted(os.listdir("/proc/self/fd")), [thread.name for thread in threading.enumerate()])

    with leveret.Broker():
        pass  # the first imports what it needs
    before, left = state(), what_is_left()
    with leveret.Broker() as broker:
        during = state()
    WORK
    after = state()
    for name in before:
        assert before[name] == during[name] == after[name], (name, before[name], during[name], after[name])
    assert left == what_is_left(), (left, what_is_left())
    print("unchanged")
    """
    assert run_apart(code.replace("\n    WORK", textwrap.indent(textwrap.dedent(WORK), "        "))) == "unchanged\n"


@pytest.mark.feature("S4-62")
def test_a_broker_works_without_uvloop() -> None:
    """Where there is none, the loop of the standard library serves."""
    code = """
    import sys
    sys.modules["uvloop"] = None  # as if it were not installed
    import asyncio, queue
    import pika, leveret

    with leveret.Broker() as broker:
        assert isinstance(broker._loop, asyncio.SelectorEventLoop), broker._loop
    WORK
        with pika.BlockingConnection(pika.URLParameters(broker.amqp_url)) as connection:
            channel = connection.channel()
            channel.queue_declare("wire")
            channel.basic_publish("", "wire", b"over the wire")
            print(channel.basic_get("wire", auto_ack=True)[2].decode())
    """
    text = code.replace("\n    WORK", textwrap.indent(textwrap.dedent(WORK), "        "))
    assert run_apart(text) == "over the wire\n"


@pytest.mark.feature("S4-62")
def test_a_program_may_end_without_stopping_its_broker() -> None:
    """No thread of ours keeps the process alive."""
    assert run_apart("import leveret; print(leveret.Broker().start().amqp_url[:7])") == "amqp://\n"


@pytest.mark.feature("S4-62")
def test_a_broker_does_not_disturb_a_running_loop_of_the_same_thread() -> None:
    """It may even be used as a plain with statement there, at the price of blocking meanwhile."""

    async def main() -> bool:
        loop = asyncio.get_running_loop()
        with leveret.Broker() as broker:
            broker.vhost().declare_queue("q")
            still = asyncio.get_running_loop() is loop
            await asyncio.sleep(0)
        return still

    assert asyncio.run(main())
