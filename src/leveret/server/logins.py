"""Passwords are verified in a few worker threads: a verification costs tens of milliseconds that the loop must not pay.

A login that was verified a moment ago is answered from a cache, at once. A wrong one is answered late, so that guessing
is slow; an overload of logins is refused rather than queued without end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from leveret.auth.mechanisms import Credentials
from leveret.auth.users import User
from leveret.broker.broker import Broker
from leveret.logs import get_log

WORKERS = 2
MOST_WAITING = 5_000

Done = Callable[[User | None], None]


class Logins:
    def __init__(self, loop: asyncio.AbstractEventLoop, broker: Broker, failure_delay: float) -> None:
        self._loop = loop
        self._broker = broker
        self.failure_delay = failure_delay
        self._pool: ThreadPoolExecutor | None = None
        self._waiting = 0
        self._log = get_log("logins")

    def login(self, credentials: Credentials, done: Done) -> None:
        """Verify; ``done`` is called on the loop, at once or later."""
        users, now = self._broker.users, self._broker.clock.now()
        if credentials.password is None:  # a client certificate vouches for the name
            self._answer(users.get(credentials.name), credentials.name, done)
            return
        cached = users.cached(credentials.name, credentials.password, now)
        if cached is not None:
            done(cached)
            return
        if self._waiting >= MOST_WAITING:
            self._log.warning("too many logins at once, one refused", waiting=self._waiting)
            self._answer(None, credentials.name, done)
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="leveret-login")
        self._waiting += 1
        future = self._pool.submit(users.authenticate, credentials.name, credentials.password, now)
        future.add_done_callback(lambda result: self._verified(result, credentials.name, done))

    def _verified(self, future: Future[User | None], name: str, done: Done) -> None:
        """In the worker's thread."""
        if future.cancelled() or self._loop.is_closed():
            return
        error = future.exception()
        user = None if error is not None else future.result()
        if error is not None:
            self._log.error("login failed by a bug", user=name, error=repr(error))
        self._loop.call_soon_threadsafe(self._back_on_loop, user, name, done)

    def _back_on_loop(self, user: User | None, name: str, done: Done) -> None:
        self._waiting -= 1
        if user is not None:
            self._broker.users.note_login(user)
            self._broker.wake()
        self._answer(user, name, done)

    def _answer(self, user: User | None, name: str, done: Done) -> None:
        if user is not None:
            done(user)
        else:
            self._log.warning("login refused", user=name)
            self._loop.call_later(self.failure_delay, done, None)

    def stop(self) -> None:
        """No thread of ours is left; waits for the verifications that run, tens of milliseconds."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
