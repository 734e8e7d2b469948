"""The loop's thread: answers reach those who wait, posts keep their order, nobody who is late waits for ever."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from leveret.client.errors import ClientError, Closed
from leveret.client.loop_thread import Answer, LoopThread

PATIENCE = 10.0


@pytest.fixture
def loop_thread() -> Iterator[LoopThread]:
    taken = LoopThread.take()
    yield taken
    taken.release()


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "leveret-client"]


# ---- answers


def test_an_answer_is_for_every_thread_that_waits() -> None:
    answer: Answer[int] = Answer()
    got: list[int] = []
    waiting = [threading.Thread(target=lambda: got.append(answer.result(PATIENCE)), daemon=True) for _ in range(3)]
    for thread in waiting:
        thread.start()
    answer.set_result(7)
    for thread in waiting:
        thread.join()
    assert got == [7, 7, 7]
    assert answer.done()
    assert answer.exception() is None


def test_an_error_is_raised_as_itself() -> None:
    answer: Answer[None] = Answer()
    problem = Closed("over")
    answer.set_exception(problem)
    with pytest.raises(Closed) as caught:
        answer.result()
    assert caught.value is problem is answer.exception()


def test_an_answer_that_does_not_come_in_time() -> None:
    answer: Answer[None] = Answer()
    with pytest.raises(TimeoutError, match=r"no answer within 0\.001 s"):
        answer.result(0.001)
    answer.set_result(None)
    assert answer.result(0) is None


def test_callbacks_are_called_once_whenever_they_are_added() -> None:
    answer: Answer[int] = Answer()
    seen: list[tuple[str, int]] = []
    answer.add_done_callback(lambda done: seen.append(("early", done.result())))
    answer.set_result(1)
    answer.add_done_callback(lambda done: seen.append(("late", done.result())))
    assert seen == [("early", 1), ("late", 1)]


# ---- the thread


def test_one_thread_serves_all_and_ends_with_the_last() -> None:
    assert threads() == []
    first, second = LoopThread.take(), LoopThread.take()
    assert first is second
    assert len(threads()) == 1
    first.release()
    assert len(threads()) == 1
    second.release()
    assert threads() == []
    third = LoopThread.take()
    assert third is not first
    third.release()


def test_a_call_returns_or_raises_what_its_coroutine_does(loop_thread: LoopThread) -> None:
    async def work(fails: bool) -> str:
        await asyncio.sleep(0)
        if fails:
            raise KeyError("its own")
        return threading.current_thread().name

    assert loop_thread.call(work(False)) == "leveret-client"
    with pytest.raises(KeyError, match="its own"):
        loop_thread.call(work(True))


def test_posts_of_a_thread_keep_their_order_and_wake_the_loop_once_for_a_burst(loop_thread: LoopThread) -> None:
    done: list[int] = []
    gate, wakes = threading.Event(), []
    loop = loop_thread._loop
    loop_thread.post(gate.wait, PATIENCE)  # the loop is busy

    class Counting:
        def call_soon_threadsafe(self, callback: object) -> None:
            wakes.append(callback)
            loop.call_soon_threadsafe(callback)  # type: ignore[arg-type]

    loop_thread._loop = Counting()  # type: ignore[assignment]
    for number in range(1000):
        loop_thread.post(done.append, number)
    loop_thread._loop = loop
    gate.set()
    loop_thread.call(asyncio.sleep(0))
    assert done == list(range(1000))
    assert len(wakes) <= 1


def test_a_post_that_fails_takes_no_other_with_it(loop_thread: LoopThread) -> None:
    problems: list[object] = []
    loop_thread._loop.set_exception_handler(lambda _, context: problems.append(context["exception"]))
    done: list[str] = []
    loop_thread.post(int, "no number")
    loop_thread.post(done.append, "the next one")
    loop_thread.call(asyncio.sleep(0))
    assert done == ["the next one"]
    assert [type(problem) for problem in problems] == [ValueError]


def test_a_call_on_the_loop_itself_is_refused_instead_of_waiting_for_itself(loop_thread: LoopThread) -> None:
    async def wait_for_itself() -> None:
        loop_thread.call(asyncio.sleep(0))

    with pytest.raises(ClientError, match="would deadlock"):
        loop_thread.call(wait_for_itself())


def test_who_comes_after_the_end_is_refused_each_time() -> None:
    taken = LoopThread.take()
    taken.release()
    for _ in range(3):
        with pytest.raises(Closed, match="connect again"):
            taken.call(asyncio.sleep(0))
        with pytest.raises(Closed):
            taken.post(print)


def test_who_waits_at_the_end_learns_it() -> None:
    taken = LoopThread.take()
    begun, outcome = threading.Event(), Answer[type]()

    async def for_ever() -> None:
        begun.set()
        await asyncio.Future()

    def wait() -> None:
        try:
            taken.call(for_ever())
        except Closed as problem:
            outcome.set_result(type(problem))

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    begun.wait(PATIENCE)
    taken.release()
    assert outcome.result(PATIENCE) is Closed
    waiting.join()


class Interrupted(Exception):
    """What a signal's handler raises, as Ctrl-C raises KeyboardInterrupt."""


@pytest.fixture
def interrupted() -> Iterator[threading.Event]:
    """Set once it has happened: a signal that comes just before a thread falls asleep does not wake it."""
    happened = threading.Event()

    def handler(*_: object) -> None:
        if not happened.is_set():
            happened.set()
            raise Interrupted

    before = signal.signal(signal.SIGUSR1, handler)
    yield happened
    signal.signal(signal.SIGUSR1, before)


async def interrupt(happened: threading.Event) -> None:
    while not happened.is_set():
        os.kill(os.getpid(), signal.SIGUSR1)
        await asyncio.sleep(0.01)


def test_an_interrupted_call_is_cancelled_and_the_next_one_works(
    loop_thread: LoopThread, interrupted: threading.Event
) -> None:
    cancelled = threading.Event()

    async def for_ever() -> None:
        try:
            await interrupt(interrupted)
            await asyncio.Future()
        finally:
            cancelled.set()

    with pytest.raises(Interrupted):
        loop_thread.call(for_ever())
    assert cancelled.wait(PATIENCE)
    assert loop_thread.call(asyncio.sleep(0, "fine")) == "fine"


def test_what_an_interrupted_call_still_brings_about_is_undone(
    loop_thread: LoopThread, interrupted: threading.Event
) -> None:
    gate = threading.Event()
    undone: Answer[str] = Answer()

    async def open_something() -> str:
        await interrupt(interrupted)
        while not gate.is_set():
            await asyncio.sleep(0)
        return "opened"

    async def undo(what: str) -> None:
        undone.set_result(what)

    with pytest.raises(Interrupted):
        loop_thread.call(open_something(), undo=undo)
    gate.set()
    assert undone.result(PATIENCE) == "opened"


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_is_told_to_connect_anew_and_can(loop_thread: LoopThread) -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(20)  # nobody waits for a child that waits for ever
        said = b"nothing was raised"
        try:
            loop_thread.call(asyncio.sleep(0))
        except Closed as problem:
            own = LoopThread.take()
            said = str(problem).encode() + own.call(asyncio.sleep(0, b"; its own works"))
            own.release()
        finally:
            os.write(writing, said)
            os._exit(0)
    os.close(writing)
    said = os.read(reading, 1000)
    os.close(reading)
    os.waitpid(child, 0)
    assert b"forked this one: connect again in this process" in said
    assert said.endswith(b"; its own works")
    assert loop_thread.call(asyncio.sleep(0, "the parent's, too")) == "the parent's, too"


def test_a_callback_that_raises_harms_neither_the_loop_nor_the_others(caplog: pytest.LogCaptureFixture) -> None:
    """It is called in the middle of what the client reads."""
    answer: Answer[int] = Answer()
    called: list[int] = []

    def fail(_: Answer[int]) -> None:
        raise ValueError("the test's own")

    answer.add_done_callback(fail)
    answer.add_done_callback(lambda done: called.append(done.result()))
    answer.set_result(7)
    assert called == [7]
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == ["the test's own"]


def test_work_that_has_begun_is_waited_for_though_the_loop_is_about_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread closes the last connection between a question and the look whether anybody will answer it."""
    thread = LoopThread.take()
    begun, post = threading.Event(), LoopThread.post

    async def work() -> int:
        begun.set()
        await asyncio.sleep(0.05)  # the caller has looked by then
        return 7

    def post_and_end(self: LoopThread, *arguments: Any) -> None:
        post(self, *arguments)
        assert begun.wait(10)
        self._is_over = True

    monkeypatch.setattr(LoopThread, "post", post_and_end)
    try:
        assert thread.call(work()) == 7
    finally:
        monkeypatch.undo()
        thread.release()


def test_work_that_nobody_will_begin_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    thread = LoopThread.take()
    thread._is_woken = True  # the loop is believed to be at it

    def post_and_end(self: LoopThread, *arguments: Any) -> None:
        self.posts.append((arguments[0], arguments[1:]))
        self._is_over = True

    async def work() -> None:
        raise AssertionError

    monkeypatch.setattr(LoopThread, "post", post_and_end)
    with pytest.raises(Closed, match="the connection is closed"):
        thread.call(work())
    assert len(thread.posts) == 0
    monkeypatch.undo()
    thread.release()
