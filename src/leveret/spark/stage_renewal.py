"""Renews the stages of a transaction while a task computes its rows.

A broker drops a stage whose transaction was not renewed for an hour. Each stage renews all others, but the last task of
a batch may compute for hours before it has rows to stage. So each task renews as long as it runs.
"""

from __future__ import annotations

import logging
import threading
from types import TracebackType
from typing import Self

from leveret.errors import LeveretError
from leveret.spark.broker_client import BrokerClient
from leveret.spark.options import Access

INTERVAL = 120.0  # seconds; the broker waits several times that long, also after a restart

log = logging.getLogger(__name__)


class StageRenewal:
    """A thread between ``__enter__`` and ``__exit__``. Failures are logged: the broker waits for several renewals."""

    def __init__(self, access: Access, transaction: str, interval: float = INTERVAL) -> None:
        self._access = access
        self._transaction = transaction
        self._interval = interval
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="leveret-renewal", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()  # not joined: a request on its way may take long, and is of no use any more

    def _run(self) -> None:
        while not self._over.wait(self._interval):
            try:
                with BrokerClient(self._access) as client:
                    client.post("stages/renew", {}, {"transaction": self._transaction})
            except LeveretError as problem:
                log.warning("the stages of transaction '%s' were not renewed: %s", self._transaction, problem)
