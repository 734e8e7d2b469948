"""Many runs of one broker on one data directory, under load, each ended by force; then everything is checked.

``live`` starts the broker, checks that the definitions of the previous run exist, runs the load and ends the broker by
a callable. ``finish`` starts it once more, drains every queue, and checks the history; then it stops the broker cleanly
and starts it a last time, because a second recovery must find what the first one left: nothing.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from leveret.wire.methods import QueueDeclare, QueueDeclareOk
from tests.support.broker_process import BrokerProcess
from tests.support.declarer import Declarer, look
from tests.support.forked_broker import ForkedBroker
from tests.support.histories import History
from tests.support.links import Link
from tests.support.loads import (
    QUEUES,
    RESTLESS,
    Actor,
    Committer,
    Consumer,
    Publisher,
    declare_topology,
    drain,
    run_life,
)

Serve = Callable[[], BrokerProcess]
End = Callable[[BrokerProcess], None]
TOPOLOGY = {("exchange", "fan"), *(("queue", queue) for queue in QUEUES)}


class CrashCycles:
    def __init__(self, serve: Serve, seed: int) -> None:
        self.serve = serve
        self.seed = seed
        self.random = Random(seed)
        self.history = History(RESTLESS)
        self.declarer = Declarer(self.history, self.new_random())
        self.actors = [*self.publishers(), *self.consumers(), self.declarer]

    def new_random(self) -> Random:
        """Each actor has its own, so that its choices do not depend on the timing of the others."""
        return Random(self.random.randrange(1 << 32))

    def publishers(self) -> list[Actor]:
        windows = {"p1": 1, "p2": 40, "p3": 150}
        made: list[Actor] = [
            Publisher(name, self.history, self.new_random(), window) for name, window in windows.items()
        ]
        return [*made, Committer("t1", self.history, self.new_random())]

    def consumers(self) -> list[Actor]:
        def consumer(name: str, queue: str, *styles: str) -> Consumer:
            made = Consumer(name, queue, self.history, self.new_random())
            made.styles = styles or made.styles
            return made

        return [
            consumer("c1", "plain"),
            consumer("c2", "shared", "each", "batches"),
            consumer("c3", "shared"),
            consumer("c4", "priority"),
            consumer("c5", "committed", "commits"),
            consumer("c6", "restless", "restless"),
            consumer("c7", "fan.a", "each", "batches", "commits"),
            consumer("c8", "fan.b"),  # fan.c has no consumer
        ]

    # ---- one run

    def live(self, seconds: float, end: End) -> None:
        """``end`` is called under load; it starts the shutdown or kill, and the process must end."""
        self.history.begin_life()
        with self.told(), self.serve() as serving:
            url = serving.url()
            if self.history.life == 1:
                asyncio.run(declare_topology(url, self.history))
            else:
                asyncio.run(look(url, self.history, TOPOLOGY | self.declarer.touched))
                self.judge(serving)
            asyncio.run(run_life(self.actors, url, seconds, self._is_busy, lambda: end(serving)))
            serving.exit_code()
            self.judge(serving)

    def _is_busy(self) -> bool:
        """Whether something was confirmed and received in this run."""
        history = self.history
        return history.confirmed_in[history.life] > 0 and history.received_in[history.life] > 0

    @contextmanager
    def told(self) -> Iterator[None]:
        """Every failure names the seed."""
        try:
            yield
        except BaseException as problem:
            problem.add_note(f"LEVERET_CRASH_SEED={self.seed}, life {self.history.life}")
            raise

    def judge(self, serving: BrokerProcess) -> None:
        """Fail on violations in the history and on errors in the log of the broker."""
        log = serving.log()
        troubles = [line for line in log.splitlines() if re.match(r"\S+ \S+ (error|critical) ", line)]
        if self.history.found or troubles or "Traceback" in log:
            told = "\n  ".join(troubles[:20]) or (log[-5000:] if "Traceback" in log else "nothing")
            where = f"life {self.history.life}, {' '.join(serving.process.args[5:])}\nthe broker complained of: {told}"
            self.history.assert_kept(where)
            raise AssertionError(where)

    # ---- the end

    def finish(self) -> None:
        with self.told():
            queues = self._drain_all()
            with self.serve() as serving:
                left = asyncio.run(self._count_all(serving.url(), queues))
                self.judge(serving)
            assert not left, f"after all was acked and a clean stop there are {left}"
            self._assert_there_was_a_load()

    def _drain_all(self) -> list[str]:
        self.history.begin_life()
        with self.serve() as serving:
            url = serving.url()
            things = {(kind, name) for kind in ("queue", "exchange", "binding") for name in self.history.things(kind)}
            asyncio.run(look(url, self.history, things))
            queues = [name for name in self.history.things("queue") if self.history.exists("queue", name)]
            for queue in queues:
                asyncio.run(drain(url, self.history, queue))
            self.history.finish()
            serving.terminate()
            code = serving.exit_code()
            self.judge(serving)
            assert code == 0, serving.log()
        return queues

    async def _count_all(self, url: str, queues: list[str]) -> dict[str, int]:
        async with await Link.open(url) as link:
            counts = {
                queue: (await link.call(QueueDeclare(queue, passive=True), QueueDeclareOk)).message_count
                for queue in queues
            }
        return {queue: number for queue, number in counts.items() if number}

    def _assert_there_was_a_load(self) -> None:
        """Without a load nothing was tested: in most runs something was confirmed and received."""
        history, lives = self.history, self.history.life - 1
        for counter in (history.confirmed_in, history.received_in):
            busy = sum(counter[life] > 0 for life in range(1, lives + 1))
            assert busy >= lives * 0.7, f"only {busy} of {lives} runs did anything"


def serving_from(folder: Path, random: Random, *flags: str) -> Serve:
    """A new broker on the same data each time; at random with tiny segments, or little memory for bodies."""

    def serve() -> BrokerProcess:
        segment = random.choice(("64KiB", "1MiB", "64MiB"))
        memory = random.choice(("64KiB", "64MiB"))
        return ForkedBroker(folder, "--segment-size", segment, "--queue-memory", memory, *flags)

    return serve
