"""Virtual hosts and the permissions in one."""

from __future__ import annotations

from functools import partial

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.api.context import ApiContext
from leveret.api.permissions import rule_row, topic_row
from leveret.api.views.vhost import UNDEFINED, facts_given, facts_of, note_facts
from leveret.auth.permissions import EVERYTHING
from leveret.broker.tracing import is_traced, set_tracing
from leveret.broker.vhost import Vhost
from leveret.http.authorization import known_vhost, name_of, seen_vhost
from leveret.http.bodies import read_object
from leveret.http.durability import wait_until_durable
from leveret.http.errors import ObjectNotFound
from leveret.http.listings import list_response, object_response
from leveret.http.responses import no_content, put_response
from leveret.http.roles import ADMINISTRATOR, MANAGEMENT, refuse_unless_role, visible_vhosts
from leveret.http.rows import Row
from leveret.http.values import boolean_of
from leveret.stats.samples import Windows, windows_of
from leveret.stats.totals import Totals


def routes(context: ApiContext) -> list[Route]:
    vhosts = Vhosts(context)
    one = "/api/vhosts/{vhost}"
    return [
        Route("/api/vhosts", vhosts.all),
        Route(one, vhosts.show),
        Route(one, vhosts.put, methods=["PUT"]),
        Route(one, vhosts.delete, methods=["DELETE"]),
        Route(f"{one}/permissions", vhosts.permissions),
        Route(f"{one}/topic-permissions", vhosts.topic_permissions),
        Route(f"{one}/start/{{node}}", vhosts.start, methods=["POST"]),
    ]


class Vhosts:
    def __init__(self, context: ApiContext) -> None:
        self._context = context
        self._broker = context.broker

    async def all(self, request: Request) -> Response:
        refuse_unless_role(request, MANAGEMENT)
        view = partial(self._row, windows_of(request.query_params), self._context.stats.totals())
        return await list_response(self._context, request, visible_vhosts(request), view)

    async def show(self, request: Request) -> Response:
        vhost = seen_vhost(request)
        return object_response(
            request, self._row(windows_of(request.query_params), self._context.stats.totals(), vhost)
        )

    async def put(self, request: Request) -> Response:
        """The user that creates a virtual host gets full permissions in it, as in RabbitMQ."""
        user = refuse_unless_role(request, ADMINISTRATOR)
        name = name_of(request, "vhost")
        given = await read_object(request, may_be_empty=True)
        is_traced_now = boolean_of(given, "tracing")
        facts = facts_given(given)
        is_new = name not in self._broker.vhosts
        vhost = self._broker.add_vhost(name)
        if is_new:
            self._broker.permissions.set(user.name, name, EVERYTHING, EVERYTHING, EVERYTHING)
        if "tracing" in given:
            set_tracing(self._broker, vhost, is_traced_now)
        if given.keys() != {"tracing"}:  # a body with only `tracing` leaves the rest unchanged
            note_facts(vhost, facts)
        await wait_until_durable(self._broker)
        return put_response(is_new)

    async def delete(self, request: Request) -> Response:
        refuse_unless_role(request, ADMINISTRATOR)
        vhost = known_vhost(self._broker, name_of(request, "vhost"))
        self._broker.delete_vhost(vhost.name)
        await wait_until_durable(self._broker)
        return no_content()

    async def permissions(self, request: Request) -> Response:
        vhost = self._administered(request)
        rules = [rule for rule in self._broker.permissions.list() if rule.vhost == vhost.name]
        return await list_response(self._context, request, rules, rule_row)

    async def topic_permissions(self, request: Request) -> Response:
        vhost = self._administered(request)
        rules = [rule for rule in self._broker.permissions.list_topic() if rule.vhost == vhost.name]
        return await list_response(self._context, request, rules, topic_row)

    async def start(self, request: Request) -> Response:
        """A virtual host that is there runs."""
        self._administered(request)
        node = name_of(request, "node")
        if node != self._broker.node_name:
            raise ObjectNotFound(f"node '{node}' not found: this one is '{self._broker.node_name}'")
        return no_content()

    def _administered(self, request: Request) -> Vhost:
        refuse_unless_role(request, ADMINISTRATOR)
        return known_vhost(self._broker, name_of(request, "vhost"))

    def _row(self, windows: Windows, totals: Totals, vhost: Vhost) -> Row:
        facts = facts_of(vhost)
        return {
            "name": vhost.name,
            "description": facts["description"],
            "tags": facts["tags"],
            "default_queue_type": facts.get("default_queue_type", UNDEFINED),
            "metadata": facts,
            "tracing": is_traced(vhost),
            "cluster_state": {self._broker.node_name: "running"},
            **self._context.stats.of_vhosts([vhost.name], windows, totals),
        }
