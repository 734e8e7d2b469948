"""How the first cell handles the requests of other cells for changes of shared definitions.

The frames are those of cells/definition_requests.py.
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from leveret.broker.broker import Broker
from leveret.cells.definition_copy import unpacked
from leveret.cells.definition_feed import Frame, Send
from leveret.cells.remote_queue import RemoteQueue
from leveret.cells.shared_definitions import (
    Item,
    RemoteOwner,
    SharedBinding,
    SharedExchange,
    SharedQueue,
    binding_of,
    declare_exchange,
    table_of,
)
from leveret.errors import AmqpError, NotFound, PreconditionFailed
from leveret.logs import get_log
from leveret.queues.declared_queue import HERE, home_of
from leveret.session.replies import internal_error


class MoveReports(Protocol):
    """The moves of queues (cells/queue_moves.py)."""

    def handle(self, sender: str, report: Frame) -> None: ...

    def is_decided_elsewhere(self, vhost: str, queue: str) -> bool:
        """Whether another cell than its home may have the queue by now."""

    def left(self, cell: str) -> None:
        """The cell has lost its connection to this one."""


class DefinitionService:
    """The first cell. ``cell``: its name."""

    def __init__(self, broker: Broker, cell: str) -> None:
        self._broker = broker
        self._cell = cell
        self._log = get_log("cells").bind(cell=cell)
        self.moves: MoveReports | None = None

    def handle(self, sender: str, frame: Frame, send: Send) -> None:
        """The request of another cell. The answer is sent once the change is on disk here."""
        number = frame.get("id")
        try:
            self._apply(sender, frame)
        except AmqpError as error:
            if number is not None:
                send({"id": number, "error": [error.code, error.text]})
            elif not isinstance(error, NotFound):  # what this cell has just deleted
                self._log.error("definition of another cell cannot be applied", other=sender, reason=error.text)
            return
        except Exception as error:  # noqa: BLE001 - without an answer, the request would be made again and again
            self._log.exception("internal error while handling a request of another cell", other=sender)
            if number is not None:
                problem = internal_error(error)
                send({"id": number, "error": [problem.code, problem.text]})
            return
        finally:
            self._broker.wake()
        if number is not None:
            lost = {"id": number, "error": [PreconditionFailed.code, "the disk of the first cell failed"]}
            self._broker.when_granted(lambda: send({"id": number}), lost=lambda: send(lost))

    def _apply(self, sender: str, frame: Frame) -> None:
        if "shards" in frame:
            if self._broker.cells.shards is not None:
                self._broker.cells.shards.reported(frame["shards"])
        elif "counts" in frame:
            self._count(sender, frame["counts"])
        elif "moving" in frame:
            if self.moves is not None:
                self.moves.handle(sender, frame["moving"])
        elif "removed" in frame:
            self._removed(sender, *frame["removed"])
        elif "put" in frame:
            self._put(sender, unpacked(frame["put"]), is_request="id" in frame)
        elif "drop" in frame:
            self._drop(frame["drop"][0], frame["drop"][1], bool(frame.get("if_unused")))

    def lost(self, cell: str) -> None:
        """The connection of another cell."""
        if self.moves is not None:
            self.moves.left(cell)

    def _put(self, sender: str, item: Item, is_request: bool) -> None:
        if not isinstance(item, SharedExchange | SharedQueue | SharedBinding):
            raise PreconditionFailed(f"another cell cannot change this definition: {item!r:.200}")
        if isinstance(item, SharedExchange):
            declare_exchange(self._broker, item, is_limited=is_request)
        elif isinstance(item, SharedQueue):
            if is_request and not item.owner and sender in self._broker.cells.leaving:
                item = item._replace(home="")  # a cell that leaves gets no new queues
            self._broker.vhost(item.vhost).declare_queue(
                item.name,
                durable=item.durable,
                exclusive=bool(item.owner),
                auto_delete=item.auto_delete,
                arguments=table_of(item.arguments),
                owner=RemoteOwner(sender, item.owner) if item.owner else None,
                is_made_up=True,
                home=self._home(item, sender),
                is_limited=is_request,
            )
        else:
            self._broker.vhost(item.vhost).bind(binding_of(item), is_limited=is_request)

    def _home(self, item: SharedQueue, sender: str) -> str:
        if not item.home:
            placement, vhost = self._broker.cells.placement, self._broker.vhost(item.vhost)
            arguments = table_of(item.arguments)
            return sender if placement is None else placement.home_of_new(vhost, item.name, arguments, sender)
        return HERE if item.home == self._cell else item.home

    def _drop(self, kind: str, key: list[Any], if_unused: bool) -> None:
        if kind == "exchange":
            self._broker.vhost(key[0]).delete_exchange(key[1], if_unused=if_unused)
        elif kind == "binding":
            self._broker.vhost(key[0]).unbind(binding_of(msgspec.convert(key, SharedBinding)))

    def _count(self, sender: str, counts: list[list[Any]]) -> None:
        for vhost, name, ready, unacked in counts:
            found = self._broker.vhosts.get(vhost)
            queue = None if found is None else found.queues.get(name)
            if isinstance(queue, RemoteQueue) and queue.cell.name == sender:
                queue.report(ready, unacked)

    def _removed(self, sender: str, vhost: str, name: str) -> None:
        queue = self._broker.vhost(vhost).queues.get(name)
        if self.moves is not None and self.moves.is_decided_elsewhere(vhost, name):
            raise PreconditionFailed(f"queue '{name}' in vhost '{vhost}' is being moved: it is asked for again")
        if queue is not None and home_of(queue) == sender:
            self._broker.vhost(vhost).remove_queue(queue)
