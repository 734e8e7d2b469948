"""Moves of queues between cells, and taking a cell out of service; served by the first cell.

A move takes as long as its messages need to be copied. The request returns an id, with which its progress is read.
Moves are not durable: a move that a restart interrupts has happened or not, and the home of the queue shows which.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.api.context import ApiContext
from leveret.api.endpoints import Endpoints, routes_of
from leveret.broker.cells import CellChanges, CellState, Proposal, QueueMover, QueueMoveState
from leveret.broker.vhost_cells import refuse_moves
from leveret.errors import NotFound
from leveret.http.amqp_values import as_bad_request, path_name, shown_queue
from leveret.http.authorization import access_of, entered_vhost
from leveret.http.bodies import read_json
from leveret.http.errors import BadRequest, ObjectNotFound
from leveret.http.responses import json_response, no_content
from leveret.http.roles import ADMINISTRATOR, MANAGEMENT, MONITORING, POLICYMAKER, may_see, refuse_unless_role
from leveret.http.rows import Row, WholeRows
from leveret.http.values import text_of

T = TypeVar("T")
MOVE_COLUMNS = ("id", "vhost", "queue", "source", "to", "state", "reason", "copied", "total", "began", "ended")


def _move_row(move: QueueMoveState) -> Row:
    return {column: getattr(move, column) for column in MOVE_COLUMNS}


MOVE_ROWS = WholeRows(MOVE_COLUMNS, _move_row)
PROPOSAL_ROWS: WholeRows[Proposal] = WholeRows(Proposal._fields, lambda proposal: proposal._asdict())
CELL_ROWS: WholeRows[CellState] = WholeRows(CellState._fields, lambda cell: cell._asdict())


def routes(context: ApiContext) -> list[Route]:
    api = _QueueMoves(context)
    return [
        Route("/api/queues/{vhost}/{name}/move", api.move, methods=["POST", "PUT"]),
        Route("/api/queue-moves", api.list_moves),
        Route("/api/queue-moves/proposals", api.propose),
        Route("/api/queue-moves/{id}", api.show_move),
        *routes_of("/api/cells", GET=api.list_cells, POST=api.add),
        *routes_of("/api/cells/{name}", DELETE=api.remove),
        Route("/api/cells/{name}/keep", api.keep, methods=["POST"]),
    ]


class _QueueMoves(Endpoints):
    @property
    def _moves(self) -> QueueMover:
        return _of_several(self._broker.cells.queue_moves)

    @property
    def _removals(self) -> CellChanges:
        return _of_several(self._broker.cells.removals)

    # ---- moves

    async def move(self, request: Request) -> Response:
        refuse_unless_role(request, POLICYMAKER)
        given = await read_json(request)
        vhost, name = entered_vhost(request), path_name(request)
        access_of(request, vhost).check("move queue", name)
        shown_queue(vhost, name)
        to = text_of(given, "to")
        with as_bad_request():
            refuse_moves(vhost)  # the first cell passes the request to the cell of the virtual host
        moves = self._moves
        with as_bad_request():
            try:
                move = moves.begin(vhost.name, name, to)
            except NotFound as missing:
                raise ObjectNotFound(missing.text) from None
        self._broker.wake()
        return json_response({"id": move.id}, 202)

    async def list_moves(self, request: Request) -> Response:
        refuse_unless_role(request, MANAGEMENT)
        seen = [move for move in self._moves.all.values() if may_see(request, move.vhost)]
        return await self._listed(request, seen, MOVE_ROWS)

    async def show_move(self, request: Request) -> Response:
        refuse_unless_role(request, MANAGEMENT)
        id_ = unquote(request.path_params["id"])
        move = self._moves.all.get(id_)
        if move is None or not may_see(request, move.vhost):
            raise ObjectNotFound(f"no move '{id_}': old ones are removed from the list, and all of them by a restart")
        return json_response(_move_row(move))

    async def propose(self, request: Request) -> Response:
        """Moves that would spread queues and messages evenly."""
        refuse_unless_role(request, POLICYMAKER)
        plan = self._removals.plan(request.query_params.get("vhost"))
        return await self._listed(request, [each for each in plan if may_see(request, each.vhost)], PROPOSAL_ROWS)

    # ---- cells

    async def list_cells(self, request: Request) -> Response:
        refuse_unless_role(request, MONITORING)
        return await self._listed(request, self._removals.states(), CELL_ROWS)

    async def add(self, request: Request) -> Response:
        """Start one more cell; the response comes when it runs."""
        refuse_unless_role(request, ADMINISTRATOR)
        _of_several(self._broker.cells.removals)
        add = self._broker.cells.add
        if add is None:
            raise BadRequest("replicated cells are added by their nodes: restart them with a higher number of --cells")
        return json_response({"name": await add()}, 201)

    async def remove(self, request: Request) -> Response:
        """Begin to take a cell out of service."""
        self._change(request, lambda name: self._removals.begin(name))
        return no_content()

    async def keep(self, request: Request) -> Response:
        """A cell that leaves stays in service."""
        self._change(request, lambda name: self._removals.cancel(name))
        return no_content()

    def _change(self, request: Request, change: Callable[[str], None]) -> None:
        refuse_unless_role(request, ADMINISTRATOR)
        with as_bad_request():
            try:
                change(path_name(request))
            except NotFound as missing:
                raise ObjectNotFound(missing.text) from None


def _of_several(found: T | None) -> T:
    if found is None:
        raise ObjectNotFound("this broker is the only cell: see 'leveret serve --cells'")
    return found
