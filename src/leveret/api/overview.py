"""The overview, and small facts that tools request first.

Users who cannot see all virtual hosts get the totals of those that they have access to, their own connections, and no
figures of the node.
"""

from __future__ import annotations

from collections.abc import Iterable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.api.context import ApiContext
from leveret.api.views.node import (
    CLUSTER_NAME,
    ERLANG_VERSION,
    RABBITMQ_VERSION,
    cluster_name,
    contexts,
    exchange_types,
    listeners,
    runtime,
)
from leveret.auth.users import User
from leveret.http.authorization import refuse_bad_name
from leveret.http.bodies import read_object
from leveret.http.durability import wait_until_durable
from leveret.http.listings import object_response
from leveret.http.login import LOGIN_METHODS
from leveret.http.responses import json_response, no_content
from leveret.http.roles import (
    ADMINISTRATOR,
    MANAGEMENT,
    MONITORING,
    has_role,
    refuse_unless_role,
    visible_vhosts,
)
from leveret.http.rows import Row
from leveret.http.server import has_single_sign_on
from leveret.stats.history import DAY, HOUR, INTERVAL, MINUTE, RECENT
from leveret.stats.samples import windows_of
from leveret.stats.totals import Totals, open_connections
from leveret.version import VERSION

LENGTHS = ("messages", "messages_ready", "messages_unacknowledged")
TEN_MINUTES, ONE_HOUR, ONE_DAY = int(RECENT * INTERVAL), int(HOUR * MINUTE), int(DAY * MINUTE)  # seconds


def routes(context: ApiContext) -> list[Route]:
    async def overview(request: Request) -> Response:
        return object_response(request, _overview(context, request))

    async def show_name(request: Request) -> Response:
        refuse_unless_role(request, MANAGEMENT)
        return json_response({"name": cluster_name(context)})

    async def name_cluster(request: Request) -> Response:
        refuse_unless_role(request, ADMINISTRATOR)
        given = (await read_object(request, required=["name"]))["name"]
        refuse_bad_name(given, "name")
        context.broker.parameters.put(CLUSTER_NAME, given)
        await wait_until_durable(context.broker)
        return no_content()

    async def nothing(request: Request) -> Response:
        refuse_unless_role(request, MANAGEMENT)
        return json_response([])

    async def auth(request: Request) -> Response:
        """Without login: a management UI requests this before it shows its login form."""
        return json_response(_login_methods(context))

    async def rebalance(request: Request) -> Response:
        """No effect: all queues are on this node."""
        refuse_unless_role(request, ADMINISTRATOR)
        return no_content()

    return [
        Route("/api/overview", overview),
        Route("/api/cluster-name", show_name),
        Route("/api/cluster-name", name_cluster, methods=["PUT"]),
        Route("/api/extensions", nothing),
        Route("/api/feature-flags", nothing),
        Route("/api/deprecated-features", nothing),
        Route("/api/deprecated-features/used", nothing),
        Route(LOGIN_METHODS, auth),
        Route("/api/rebalance/queues", rebalance, methods=["POST"]),
    ]


def _login_methods(context: ApiContext) -> Row:
    """Tokens of OAuth 2 are not accepted: RabbitMQ's fields stay as they are with single sign-on."""
    name = context.settings.oidc_provider_name if has_single_sign_on(context.settings) else None
    unused = {"oauth_enabled": False, "enable_uaa": False, "uaa_client_id": "", "uaa_location": ""}
    return {**unused, "oidc_provider_name": name}


def _overview(context: ApiContext, request: Request) -> Row:
    user = refuse_unless_role(request, MANAGEMENT)
    windows, totals = windows_of(request.query_params), context.stats.totals()
    sees_all = has_role(user, MONITORING)
    names = list(totals.vhosts) if sees_all else [vhost.name for vhost in visible_vhosts(request)]
    counted = context.stats.of_node(windows, totals) if sees_all else context.stats.of_vhosts(names, windows, totals)
    told = _versions() | {
        "rates_mode": "basic",
        "disable_stats": False,
        "enable_queue_totals": False,
        "sample_retention_policies": {
            "global": [TEN_MINUTES, ONE_DAY],
            "basic": [TEN_MINUTES, ONE_HOUR],
            "detailed": [TEN_MINUTES, ONE_HOUR],
        },
        "exchange_types": exchange_types(context),
        "cluster_name": cluster_name(context),
        "message_stats": counted["message_stats"],
        "queue_totals": {key: value for key, value in counted.items() if key.removesuffix("_details") in LENGTHS},
        "object_totals": _objects(totals, names) | ({} if sees_all else _own_peers(context, user)),
        "statistics_db_event_queue": 0,
        "node": context.broker.node_name,
        **_cell(context),
    }
    if sees_all:
        told |= {"churn_rates": counted["churn_rates"], **counted["traffic"]}
        told["listeners"], told["contexts"] = listeners(context), contexts(context)
    return told


def _cell(context: ApiContext) -> Row:
    if context.cluster is None:
        return {}
    status = context.cluster.status()
    return {"cell": {"name": status.cell, "leader": status.leader, "epoch": status.epoch}}


def _versions() -> Row:
    return {
        "product_name": "Leveret",
        "product_version": VERSION,
        "management_version": RABBITMQ_VERSION,
        "rabbitmq_version": RABBITMQ_VERSION,
        "erlang_version": ERLANG_VERSION,
        "erlang_full_version": runtime(),
    }


def _objects(totals: Totals, names: Iterable[str]) -> Row:
    vhosts = [totals.vhosts[name] for name in names if name in totals.vhosts]
    return {
        name: sum(getattr(vhost, name) for vhost in vhosts)
        for name in ("channels", "connections", "consumers", "exchanges", "queues")
    }


def _own_peers(context: ApiContext, user: User) -> Row:
    """The number of connections that are listed for this user (api/connections.py)."""
    own = [each for each in open_connections(context.broker) if each.user.name == user.name]
    return {"connections": len(own), "channels": sum(len(each.channels) for each in own)}
