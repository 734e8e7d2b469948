"""Virtual hosts, and the permissions in a virtual host."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.api.context import ApiContext
from leveret.api.endpoints import Endpoints, routes_of
from leveret.api.permissions import RULE_ROWS, TOPIC_RULE_ROWS
from leveret.api.views.vhost import UNDEFINED, cell_given, metadata_given
from leveret.auth.permissions import EVERYTHING
from leveret.broker.tracing import is_traced, set_tracing
from leveret.broker.vhost import Vhost
from leveret.broker.vhost_cells import place_vhost, refuse_cell
from leveret.broker.vhost_metadata import metadata_of, note_metadata
from leveret.http.authorization import known_vhost, name_of, seen_vhost
from leveret.http.bodies import read_object
from leveret.http.errors import ObjectNotFound
from leveret.http.listings import object_response
from leveret.http.responses import no_content
from leveret.http.roles import ADMINISTRATOR, MANAGEMENT, refuse_unless_role, visible_vhosts
from leveret.http.rows import Row, WholeRows
from leveret.http.values import boolean_of
from leveret.stats.samples import Windows, windows_of
from leveret.stats.totals import TRAFFIC_COUNTS, Totals


def routes(context: ApiContext) -> list[Route]:
    vhosts, one = Vhosts(context), "/api/vhosts/{vhost}"
    return [
        Route("/api/vhosts", vhosts.all),
        *routes_of(one, GET=vhosts.show, PUT=vhosts.put, DELETE=vhosts.delete),
        Route(f"{one}/permissions", vhosts.permissions),
        Route(f"{one}/topic-permissions", vhosts.topic_permissions),
        Route(f"{one}/start/{{node}}", vhosts.start, methods=["POST"]),
    ]


class FoundVhost(NamedTuple):
    vhost: Vhost
    context: ApiContext
    windows: Windows
    totals: Totals


def _row(found: FoundVhost) -> Row:
    vhost, context = found.vhost, found.context
    facts = metadata_of(vhost)
    return {
        "name": vhost.name,
        "description": facts["description"],
        "tags": facts["tags"],
        "default_queue_type": facts.get("default_queue_type", UNDEFINED),
        "metadata": facts,
        "tracing": is_traced(vhost),
        "cell": vhost.cell,
        "cluster_state": {context.broker.node_name: "running"},
        **context.stats.of_vhosts([vhost.name], found.windows, found.totals),
    }


COUNTED = ("messages", "messages_ready", "messages_unacknowledged", *TRAFFIC_COUNTS)
VHOST_ROWS = WholeRows(
    (
        *("name", "description", "tags", "default_queue_type", "metadata", "tracing", "cell", "cluster_state"),
        *("message_stats", *(each for name in COUNTED for each in (name, f"{name}_details"))),
    ),
    _row,
)


class Vhosts(Endpoints):
    async def all(self, request: Request) -> Response:
        refuse_unless_role(request, MANAGEMENT)
        return await self._listed(request, self._found(request, visible_vhosts(request)), VHOST_ROWS)

    async def show(self, request: Request) -> Response:
        (found,) = self._found(request, [seen_vhost(request)])
        return object_response(request, VHOST_ROWS.row(found))

    def _found(self, request: Request, vhosts: Iterable[Vhost]) -> list[FoundVhost]:
        windows, totals = windows_of(request.query_params), self._context.stats.totals()
        return [FoundVhost(vhost, self._context, windows, totals) for vhost in vhosts]

    async def put(self, request: Request) -> Response:
        """The user that creates a virtual host gets full permissions in it, as in RabbitMQ."""
        user = refuse_unless_role(request, ADMINISTRATOR)
        name = name_of(request, "vhost")
        given = await read_object(request, may_be_empty=True)
        is_traced_now = boolean_of(given, "tracing")
        facts, cell = metadata_given(given), cell_given(given)
        if cell is not None:
            refuse_cell(self._broker, name, cell)
        is_new = name not in self._broker.vhosts
        vhost = self._broker.add_vhost(name)
        if is_new:
            self._broker.permissions.set(user.name, name, EVERYTHING, EVERYTHING, EVERYTHING)
        if cell is not None:
            place_vhost(self._broker, vhost, cell)
        if "tracing" in given:
            set_tracing(self._broker, vhost, is_traced_now)
        if not given or given.keys() - {"tracing", "cell"}:  # a body with only these leaves the rest unchanged
            note_metadata(vhost, facts)
        return await self._put(is_new)

    async def delete(self, request: Request) -> Response:
        self._broker.delete_vhost(self._administered(request).name)
        return await self._changed()

    async def permissions(self, request: Request) -> Response:
        vhost = self._administered(request)
        rules = [rule for rule in self._broker.permissions.list() if rule.vhost == vhost.name]
        return await self._listed(request, rules, RULE_ROWS)

    async def topic_permissions(self, request: Request) -> Response:
        vhost = self._administered(request)
        rules = [rule for rule in self._broker.permissions.list_topic() if rule.vhost == vhost.name]
        return await self._listed(request, rules, TOPIC_RULE_ROWS)

    async def start(self, request: Request) -> Response:
        """No effect: every virtual host runs."""
        self._administered(request)
        node = name_of(request, "node")
        if node != self._broker.node_name:
            raise ObjectNotFound(f"node '{node}' not found: this one is '{self._broker.node_name}'")
        return no_content()

    def _administered(self, request: Request) -> Vhost:
        refuse_unless_role(request, ADMINISTRATOR)
        return known_vhost(self._broker, name_of(request, "vhost"))
