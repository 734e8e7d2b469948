"""Help for writing policies: the known keys, and the objects that a pattern would match. Changes nothing.

GET /api/policy-keys
GET /api/policy-matches/{vhost}?pattern=^orders&apply-to=queues
"""

from __future__ import annotations

from time import perf_counter

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.api.context import ApiContext
from leveret.api.endpoints import Endpoints
from leveret.api.views.policy_key import KEY_ROWS
from leveret.broker.policy import APPLY_TO, EXCHANGE, Matches, name_matcher
from leveret.broker.policy_keys import KEYS
from leveret.broker.vhost import Vhost
from leveret.errors import PreconditionFailed
from leveret.http.authorization import seen_vhost
from leveret.http.errors import BadRequest
from leveret.http.responses import json_response
from leveret.http.roles import MANAGEMENT, refuse_unless_role
from leveret.http.values import excerpt, query_parameter

MOST_SHOWN = 20  # matching names
SECONDS = 1.0  # time limit of a pattern, over all names

Named = tuple[str, str]  # kind, name


def routes(context: ApiContext) -> list[Route]:
    drafts = Drafts(context)
    return [Route("/api/policy-keys", drafts.keys), Route("/api/policy-matches/{vhost}", drafts.matches)]


class Drafts(Endpoints):
    async def keys(self, request: Request) -> Response:
        refuse_unless_role(request, MANAGEMENT)
        return await self._listed(request, KEYS.values(), KEY_ROWS)

    async def matches(self, request: Request) -> Response:
        vhost = seen_vhost(request)
        pattern, apply_to = query_parameter(request, "pattern", ""), query_parameter(request, "apply-to", "all")
        kinds = APPLY_TO.get(apply_to)
        if kinds is None:
            raise BadRequest(f"'apply-to' must be one of {', '.join(APPLY_TO)}, not {excerpt(apply_to)}")
        try:
            matches = name_matcher(pattern)
        except PreconditionFailed as problem:
            raise BadRequest(f"'pattern' cannot be used: {problem.text}") from None
        candidates = [one for one in _named(vhost) if one[0] in kinds]
        found = await self._context.in_worker(lambda: _matching(candidates, matches))
        exchanges = sum(kind == EXCHANGE for kind, _ in found)
        some = [{"kind": kind, "name": name} for kind, name in sorted(found)[:MOST_SHOWN]]
        return json_response({"queues": len(found) - exchanges, "exchanges": exchanges, "some": some})


def _named(vhost: Vhost) -> list[Named]:
    queues = [(queue.options.kind, queue.name) for queue in vhost.queues.values()]
    return queues + [(EXCHANGE, name) for name in vhost.exchanges if name]


def _matching(candidates: list[Named], matches: Matches) -> list[Named]:
    found: list[Named] = []
    end = perf_counter() + SECONDS
    try:
        for one in candidates:
            if matches(one[1]):
                found.append(one)
            if perf_counter() > end:
                raise TimeoutError
    except TimeoutError:
        raise BadRequest("'pattern' takes too long to match the names here: write a simpler expression") from None
    return found
