"""Verifies passwords in worker threads: a verification takes tens of milliseconds, too long for the event loop.

Theory of operation. A login that was verified recently is answered from a cache. Others wait in a queue per source
address (admission.py), and the queues are served round-robin, so that one source cannot delay another by the number
of its logins. Sources with failed logins in the last minute are served every fourth time while others wait. All queues
together hold no more than can be verified within the handshake timeout: later logins would time out anyway. A login is
skipped if its connection has been closed, and answered from the cache if the same login has been verified meanwhile: of
a thousand clients that reconnect with one password, one is verified.

A wrong login is answered at once, as in RabbitMQ, until its source has failed repeatedly: from then on replies are
delayed, so that guessing is slow. A client that does not support a reply is always closed after the delay.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, NamedTuple, Protocol, TypeVar

from leveret.auth.mechanisms import Credentials
from leveret.auth.users import User
from leveret.broker.broker import Broker
from leveret.logs import get_log

WORKERS = 2
FIRST_GUESS = 0.1  # seconds for a verification, until one has been measured
SHORTEST_QUEUE = 16
FAILURES = 5  # in FAILING seconds: a source with so many is served after the others
FAILING = 60.0
MOST_FAILING = 10_000  # sources that are remembered
FAILING_EVERY = 4
NICENESS = 5  # of the worker threads, so that messages take precedence over password checks
ESTABLISHED = 1  # the TCP state

Done = Callable[[User | None], None]


class LoginPeer(Protocol):
    """The connection of a login."""

    @property
    def source(self) -> str:
        """The address that limits apply to: see admission.source_of."""

    @property
    def address(self) -> str:
        """Host and port, for the log."""

    @property
    def is_told(self) -> bool:
        """Whether a refused login gets a reply; if not, the connection is closed without one."""

    def is_gone(self) -> bool:
        """Whether the connection has been closed, by either side."""

    def authenticated(self) -> None:
        """The login succeeded."""


class Attempt(NamedTuple):
    credentials: Credentials
    peer: LoginPeer
    source: str
    done: Done


class FailedSources:
    """Sources with wrong logins, the one that failed last at the end."""

    def __init__(self) -> None:
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()  # number of failures, time of the first

    def note(self, source: str, now: float) -> None:
        number, since = self._failures.pop(source, (0, now))
        if now - since > FAILING:
            number, since = 0, now
        self._failures[source] = (number + 1, since)
        if len(self._failures) > MOST_FAILING:
            self._failures.popitem(last=False)

    def is_failing(self, source: str, now: float) -> bool:
        """Whether the source has failed repeatedly within the last minute."""
        number, since = self._failures.get(source, (0, 0.0))
        return number >= FAILURES and now - since <= FAILING


class HasSource(Protocol):
    @property
    def source(self) -> str: ...


Waiting = TypeVar("Waiting", bound=HasSource)


class LoginQueue(Generic[Waiting]):
    """Waiting logins, in a queue per source, served round-robin."""

    def __init__(self, failed: FailedSources) -> None:
        self._failed = failed
        self._queues: OrderedDict[str, deque[Waiting]] = OrderedDict()
        self._number = 0
        self._served = 0

    def __len__(self) -> int:
        return self._number

    def join(self, attempt: Waiting, most: int) -> Waiting | None:
        """Add a login. If there are then more than ``most``, remove and return the last one of the longest queue."""
        queue = self._queues.setdefault(attempt.source, deque())
        queue.append(attempt)
        self._number += 1
        if self._number <= most:
            return None
        self._number -= 1
        source = max(self._queues, key=lambda source: len(self._queues[source]))
        longest = queue if len(queue) == len(self._queues[source]) else self._queues[source]
        refused = longest.pop()
        if not longest:
            del self._queues[refused.source]
        return refused

    def next(self, now: float) -> Waiting | None:
        if not self._queues:
            return None
        self._served += 1
        source = next(iter(self._queues))
        if self._served % FAILING_EVERY:
            source = next((each for each in self._queues if not self._failed.is_failing(each, now)), source)
        queue = self._queues.pop(source)
        attempt = queue.popleft()
        if queue:
            self._queues[source] = queue  # at the end of the round
        self._number -= 1
        return attempt


class Logins:
    def __init__(
        self, loop: asyncio.AbstractEventLoop, broker: Broker, failure_delay: float, handshake_timeout: float
    ) -> None:
        self._loop = loop
        self._broker = broker
        self.failure_delay = failure_delay
        self.handshake_timeout = handshake_timeout
        self._pool: ThreadPoolExecutor | None = None
        self._running = 0
        self._seconds = FIRST_GUESS  # measured time of a verification
        self._failed = FailedSources()
        self._queue: LoginQueue[Attempt] = LoginQueue(self._failed)
        self._log = get_log("logins")

    @property
    def waiting(self) -> int:
        return len(self._queue)

    def login(self, credentials: Credentials, peer: LoginPeer, done: Done) -> None:
        """Verify a login; ``done`` is called on the loop, at once or later."""
        attempt = Attempt(credentials, peer, peer.source, done)
        if credentials.password is None:  # authenticated by a client certificate
            self._answer(self._broker.users.get(credentials.name), attempt)
            return
        if self._is_known(attempt):
            return
        most = max(SHORTEST_QUEUE, int(WORKERS * self.handshake_timeout / self._seconds))
        refused = self._queue.join(attempt, most)
        if refused is not None:
            self._refuse(refused, late=True, reason="too many logins at once")
        self._serve()

    def _is_known(self, attempt: Attempt) -> bool:
        """Answer from the cache, if the login is there."""
        credentials = attempt.credentials
        assert credentials.password is not None
        cached = self._broker.users.cached(credentials.name, credentials.password, self._broker.clock.now())
        if cached is not None:
            self._accept(cached, attempt)
        return cached is not None

    def _serve(self) -> None:
        """Start the next verifications while workers are idle."""
        while self._running < WORKERS:
            attempt = self._queue.next(self._loop.time())
            if attempt is None:
                return
            if attempt.peer.is_gone():
                attempt.done(None)
            elif not self._is_known(attempt):
                self._verify(attempt)

    def _verify(self, attempt: Attempt) -> None:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="leveret-login", initializer=_yield_to_others)
        self._running += 1
        begun, (name, password) = self._loop.time(), (attempt.credentials.name, attempt.credentials.password)
        assert password is not None
        future = self._pool.submit(self._broker.users.authenticate, name, password, self._broker.clock.now())
        future.add_done_callback(lambda result: self._verified(result, attempt, begun))

    def _verified(self, future: Future[User | None], attempt: Attempt, begun: float) -> None:
        """Runs in the worker's thread."""
        if future.cancelled() or self._loop.is_closed():
            return
        error = future.exception()
        user = None if error is not None else future.result()
        if error is not None:
            self._log.error("internal error during login", user=attempt.credentials.name, error=repr(error))
        self._loop.call_soon_threadsafe(self._back_on_loop, user, attempt, begun)

    def _back_on_loop(self, user: User | None, attempt: Attempt, begun: float) -> None:
        self._running -= 1
        self._seconds += (self._loop.time() - begun - self._seconds) / 8
        if user is None:
            self._failed.note(attempt.source, self._loop.time())
        else:
            self._broker.users.note_login(user)
            self._broker.wake()
            current = self._broker.users.get(user.name)
            if current is not None and current.secret is not user.secret:  # changed on the way back to the loop
                self._verify(attempt)
                return
            user = current
        self._answer(user, attempt)
        self._serve()

    def _answer(self, user: User | None, attempt: Attempt) -> None:
        if user is not None:
            self._accept(user, attempt)
        else:
            self._refuse(attempt, late=self._failed.is_failing(attempt.source, self._loop.time()))

    def _refuse(self, attempt: Attempt, late: bool, reason: str = "") -> None:
        given = attempt.credentials
        self._log.warning(
            "login refused",
            user=given.name or given.remote_name,
            peer=attempt.peer.address,
            mechanism=given.mechanism,
            reason=reason or self._reason(given),
        )
        if late or not attempt.peer.is_told:
            self._loop.call_later(self.failure_delay, attempt.done, None)
        else:
            attempt.done(None)

    def _reason(self, given: Credentials) -> str:
        """Only for the log: the reply is the same in all cases."""
        if given.remote_name:
            return "user may log in from localhost only"
        if self._broker.users.get(given.name) is None:
            return "unknown user"
        return "wrong password"

    def _accept(self, user: User, attempt: Attempt) -> None:
        attempt.peer.authenticated()
        attempt.done(user)

    def stop(self) -> None:
        """End all worker threads; waits for running verifications, tens of milliseconds."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)


def _yield_to_others() -> None:
    """Runs in a worker's thread. Only Linux has thread priorities."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)


def is_gone(transport: asyncio.BaseTransport) -> bool:
    """Whether the connection was closed, also while reading from it is paused, when no event reports it."""
    if transport.is_closing():
        return True
    plain = transport.get_extra_info("socket")
    if plain is None or not hasattr(socket, "TCP_INFO"):
        return False
    try:
        state: int = plain.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
    except OSError:
        return True
    return state != ESTABLISHED
