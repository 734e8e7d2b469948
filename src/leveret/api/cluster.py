"""The cell of this node: its state, and hand-over to another node.

Requests are always handled by the leader, since standbys relay their connections to it.
"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.api.cluster_view import ClusterView
from leveret.api.context import ApiContext
from leveret.api.views.cluster import cell_row, cluster_row, move_row
from leveret.cluster.cell_summary import CellSummary, Move, balanced, summary_of
from leveret.errors import ClusterError
from leveret.http.bodies import read_object
from leveret.http.errors import Conflict, ObjectNotFound
from leveret.http.listings import object_response
from leveret.http.responses import json_response
from leveret.http.roles import ADMINISTRATOR, MONITORING, refuse_unless_role
from leveret.http.values import boolean_of, text_of


def routes(context: ApiContext) -> list[Route]:
    async def show(request: Request) -> Response:
        refuse_unless_role(request, MONITORING)
        return object_response(request, cluster_row(_cell(context).status()))

    async def hand_over(request: Request) -> Response:
        """The response is sent before the other node leads."""
        refuse_unless_role(request, ADMINISTRATOR)
        given = await read_object(request, may_be_empty=True)
        wanted, cluster = text_of(given, "to", ""), _cell(context)
        cell = await _find(cluster, text_of(given, "cell", ""))
        if wanted and wanted == cell.leader:
            raise Conflict(f"node '{wanted}' leads already: name another one, or none for the most advanced")
        try:
            successor = await cluster.hand_over_cell(cell.cell, wanted)
        except ClusterError as problem:
            raise Conflict(str(problem)) from problem
        return json_response({"from": cell.leader, "to": successor, "epoch": cell.epoch}, 202)

    async def show_cells(request: Request) -> Response:
        refuse_unless_role(request, MONITORING)
        return json_response([cell_row(each) for each in await _cell(context).cells()])

    async def balance(request: Request) -> Response:
        """The response is sent before the other nodes lead."""
        refuse_unless_role(request, ADMINISTRATOR)
        is_dry = boolean_of(await read_object(request, may_be_empty=True), "dry_run")
        cell = _cell(context)
        moves = balanced(await cell.cells())
        if not is_dry:
            await _hand_over(cell, moves)
        return json_response({"moves": [move_row(each) for each in moves]}, 200 if is_dry else 202)

    return [
        Route("/api/cluster", show),
        Route("/api/cluster/handover", hand_over, methods=["POST"]),
        Route("/api/cluster/cells", show_cells),
        Route("/api/cluster/cells/balance", balance, methods=["POST"]),
    ]


async def _find(cluster: ClusterView, name: str) -> CellSummary:
    """The cell with this name; that of this node without one."""
    own = summary_of(cluster.status())
    if name in ("", own.cell):
        return own
    found = next((each for each in await cluster.cells() if each.cell == name), None)
    if found is None:
        raise ObjectNotFound(f"no cell '{name}' in this cluster: see 'leveret cluster cells'")
    return found


async def _hand_over(cell: ClusterView, moves: Sequence[Move]) -> None:
    """That of the first cell, which answers this request, is the last."""
    try:
        for move in reversed(moves):
            await cell.hand_over_cell(move.cell, move.target)
    except ClusterError as problem:
        raise Conflict(str(problem)) from problem


def _cell(context: ApiContext) -> ClusterView:
    if context.cluster is None:
        raise ObjectNotFound("this node does not belong to a cell: see 'leveret serve --cluster'")
    return context.cluster
