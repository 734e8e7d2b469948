"""The latest log lines of a node, for administrators: they name users, addresses and objects of all virtual hosts."""

from __future__ import annotations

import logging
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.api.context import ApiContext
from leveret.api.nodes import refuse_other_nodes
from leveret.api.recent_log import MOST_LINES, LogLine
from leveret.http.errors import BadRequest
from leveret.http.responses import json_response
from leveret.http.roles import ADMINISTRATOR, refuse_unless_role
from leveret.http.rows import Row
from leveret.http.values import integer_of, query_parameter
from leveret.logs import ROOT

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def routes(context: ApiContext) -> list[Route]:
    async def show(request: Request) -> Response:
        """The latest lines of the process. Poll with 'after' set to the 'last' of the previous response, and 'run' to
        its 'run': after a restart all lines of the new run are returned."""
        refuse_unless_role(request, ADMINISTRATOR)
        refuse_other_nodes(context, unquote(request.path_params["name"]))
        level = query_parameter(request, "level", "debug")
        if level not in LEVELS:
            raise BadRequest(f"'level' must be one of {', '.join(LEVELS)}, not '{level[:40]}'")
        after = integer_of(request.query_params, "after", default=0)
        most = integer_of(request.query_params, "limit", 1, MOST_LINES, MOST_LINES)
        kept = context.recent_log
        if query_parameter(request, "run", kept.run) != kept.run:
            after = 0
        rows = [_row(line) for line in kept.lines(after, LEVELS[level], most)]
        return json_response(
            {"lines": rows, "first": kept.first, "last": kept.last, "run": kept.run, "level": _level()}
        )

    return [Route("/api/nodes/{name}/log", show)]


def _row(line: LogLine) -> Row:
    return {
        "number": line.number,
        "time": int(line.time * 1000),
        "level": _name_of(line.level),
        "log": line.log,
        "text": line.text,
        "has_trace": line.has_trace,
    }


def _name_of(level: int) -> str:
    return next((name for name, least in reversed(LEVELS.items()) if level >= least), "debug")


def _level() -> str:
    """The lowest level that is logged."""
    return _name_of(logging.getLogger(ROOT).getEffectiveLevel())
