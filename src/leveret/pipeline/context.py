"""The context of the pipeline's endpoints: the broker, its clock, and worker threads for files and Arrow.

The broker is used on its event loop only. There are two worker threads, so that one long fetch does not delay all
others, and not more, since they share the interpreter with the event loop.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from leveret.broker.broker import Broker
from leveret.broker.vhost import Vhost
from leveret.clock import Clock
from leveret.errors import BrokerStopped
from leveret.pipeline.commits import Commits
from leveret.pipeline.spark_queries import SparkQueries
from leveret.queues.declared_queue import DeclaredQueue

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from leveret.pipeline.cell_requests import CellRequests

WORKERS = 2
MOST_HELD = 512 << 20

T = TypeVar("T")


class PipelineContext:
    def __init__(self, broker: Broker, max_message_size: int = 16 << 20) -> None:
        self.broker = broker
        self.cells: CellRequests | None = None  # if there are several
        self.commits = Commits(broker)
        self.queries = SparkQueries(broker.clock)
        self.max_message_size = max_message_size
        self.held = 0  # bytes of Arrow in memory: record batches that are incomplete, or being made into messages
        self.building = asyncio.Semaphore(WORKERS)  # held by a request while its messages are built and processed
        self._threads: ThreadPoolExecutor | None = None
        self._jobs: set[asyncio.Future[Any]] = set()
        self._is_closed = False

    @property
    def clock(self) -> Clock:
        return self.broker.clock

    @property
    def most_held(self) -> int:
        """The limit of ``held`` in bytes: at most an eighth of the memory high watermark."""
        return min(MOST_HELD, self.broker.memory.high_watermark // 8)

    async def answer_of_home(
        self, request: Request, queue: DeclaredQueue, given: Mapping[str, object] | None = None
    ) -> Response | None:
        """The response of the cell where the queue is; None if that is this one. ``given``: the body, if it was
        read."""
        if queue.home is None or self.cells is None:
            return None
        body = None if given is None else json.dumps(given).encode()
        return await self.cells.pass_on(request, queue.home.cell_name, body)

    async def answer_of_first(self, request: Request) -> Response | None:
        """The response of the first cell, which has all transactions; None if that is this one."""
        cells = self.cells
        return None if cells is None or cells.cell == cells.first else await cells.pass_on(request, cells.first)

    async def answers_of_others(self, request: Request, vhost: Vhost) -> list[dict[str, Any]]:
        """The answers of all other cells with queues in the virtual host to the same request, a GET. A request that
        another cell has passed on is for this cell only."""
        cells = self.cells
        if cells is None or cells.is_passed_on(request):
            return []
        names = {queue.home.cell_name for queue in vhost.queues.values() if queue.home is not None}
        return await asyncio.gather(*[cells.ask(request, cell) for cell in sorted(names)])

    async def in_worker(self, job: Callable[[], T]) -> T:
        """The result of ``job``, run in one of the threads. A started job finishes even if the caller is cancelled."""
        if self._is_closed:
            raise BrokerStopped("the broker is stopping")
        if self._threads is None:
            self._threads = ThreadPoolExecutor(WORKERS, thread_name_prefix="leveret-arrow")
        running = asyncio.wrap_future(self._threads.submit(job))
        self._jobs.add(running)
        running.add_done_callback(self._forget)
        return await asyncio.shield(running)

    def _forget(self, job: asyncio.Future[Any]) -> None:
        self._jobs.discard(job)
        if not job.cancelled():
            job.exception()  # retrieved: the caller may be cancelled

    async def close(self, seconds: float) -> None:
        """Accept no more jobs, and wait for the running ones, at most ``seconds`` (the disk may hang)."""
        self._is_closed = True
        if self._threads is None:
            return
        self._threads.shutdown(wait=False, cancel_futures=True)
        if self._jobs:
            await asyncio.wait(set(self._jobs), timeout=seconds)
        if not self._jobs:
            self._threads.shutdown(wait=True)
