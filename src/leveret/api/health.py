"""Health checks. Each responds with 200 and ``{"status": "ok"}``, or with 503 and the reason.

They are meant for load balancers and service managers: they are cheap, and any management user may run them. The
aliveness test publishes a message to a queue of its own and gets it.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import wraps
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.api.certificate_dates import certificate_end
from leveret.api.context import ApiContext
from leveret.api.endpoints import Endpoints
from leveret.api.publish_answers import until_answered
from leveret.api.views.node import listeners
from leveret.broker.local import Delivered, LocalSession
from leveret.errors import AmqpError, LeveretError
from leveret.http.authorization import access_of, vhost_of
from leveret.http.awaited import awaited
from leveret.http.durability import wait_until_durable
from leveret.http.errors import BadRequest, HttpError, ObjectNotFound
from leveret.http.responses import json_response
from leveret.http.roles import MANAGEMENT, refuse_unless_role

ALIVENESS = "aliveness-test"
ALONE = "single node cluster"
SAME_PROTOCOL = {
    "amqp091": "amqp",
    "amqp0.9.1": "amqp",
    "amqp0-9-1": "amqp",
    "amqp10": "amqp",
    "amqps": "amqp/ssl",
    "stomps": "stomp/ssl",
    "https": "https",
}
DAYS = {"days": 1, "weeks": 7, "months": 31, "years": 366}
MOST_PERIODS = 10_000
DAY = 86_400.0
LONGEST_SHOWN = 40  # characters of an invalid value in an error

Check = Callable[[Request], Awaitable[Response]]


def ok(**facts: object) -> Response:
    return json_response({"status": "ok", **facts})


def failed(reason: str, **facts: object) -> Response:
    return json_response({"status": "failed", "reason": reason, **facts}, 503)


def why_not_ready(context: ApiContext) -> str | None:
    """The reason why clients cannot be served. An alarm is none: consumers are served meanwhile."""
    broker, cluster = context.broker, context.cluster
    if broker.is_stopping:
        return "the node is stopping"
    if broker.is_lost:
        return "the store is read-only: restart the broker"
    if cluster is not None and not cluster.status().is_answering:
        return "the engine does not store messages: check the NATS servers"
    return None


def _number(text: str) -> int:
    """At most nine digits; -1 for anything else."""
    return int(text) if text.isdecimal() and text.isascii() and len(text) < 10 else -1


def routes(context: ApiContext) -> list[Route]:
    checks = Checks(context)
    by_path: dict[str, Check] = {
        "health/checks/alarms": checks.alarms,
        "health/checks/local-alarms": checks.alarms,
        "health/checks/port-listener/{port}": checks.port_listener,
        "health/checks/protocol-listener/{protocol:path}": checks.protocol_listener,
        "health/checks/virtual-hosts": checks.virtual_hosts,
        "health/checks/node-is-quorum-critical": checks.quorum_critical,
        "health/checks/node-is-mirror-sync-critical": checks.alone,
        "health/checks/certificate-expiration/{within}/{unit}": checks.certificate_expiration,
        "health/checks/is-in-service": checks.is_in_service,
        "health/checks/ready-to-serve-clients": checks.ready_to_serve_clients,
        "healthchecks/node": checks.node,
        "healthchecks/node/{name}": checks.node,
        "aliveness-test/{vhost}": checks.aliveness,
    }
    return [Route(f"/api/{path}", _for_management_users(check)) for path, check in by_path.items()]


def _for_management_users(check: Check) -> Check:
    @wraps(check)
    async def run(request: Request) -> Response:
        refuse_unless_role(request, MANAGEMENT)
        return await check(request)

    return run


class Checks(Endpoints):
    async def alarms(self, request: Request) -> Response:
        raised = self._broker.alarms
        if not raised:
            return ok()
        shown = [{"node": self._broker.node_name, "resource": name, "reason": raised[name]} for name in sorted(raised)]
        return failed(f"resource alarm(s) in effect: {', '.join(sorted(raised.values()))}", alarms=shown)

    async def port_listener(self, request: Request) -> Response:
        given = unquote(request.path_params["port"])
        port = _number(given)
        if not 0 < port < 65536:
            raise BadRequest(f"Invalid port: '{given[:LONGEST_SHOWN]}' is not a number from 1 to 65535")
        ports = sorted({row["port"] for row in listeners(self._context)})
        if port not in ports:
            return failed("No active listener", missing=port, ports=ports)
        return ok(port=port)

    async def protocol_listener(self, request: Request) -> Response:
        given = unquote(request.path_params["protocol"]).lower()
        wanted = SAME_PROTOCOL.get(given, given)
        served = sorted({row["protocol"] for row in listeners(self._context)})
        if wanted not in served:
            return failed("No active listener", missing=wanted, protocols=served)
        return ok(protocol=wanted)

    async def virtual_hosts(self, request: Request) -> Response:
        """A virtual host is running as long as the broker can store messages."""
        if self._broker.is_lost:
            down = [{"vhost": name, "node": self._broker.node_name} for name in sorted(self._broker.vhosts)]
            reason = "Some virtual hosts are down: the store is read-only, restart the broker"
            return failed(reason, **{"virtual-hosts": down})
        return ok()

    async def quorum_critical(self, request: Request) -> Response:
        """Fails if the cell would not survive another failure after the node in the query has stopped; without one,
        after any node that is up to date. A standby relays the request, so which node received it is not known."""
        cluster, node = self._context.cluster, request.query_params.get("node")
        if cluster is None:
            return ok(reason=ALONE)
        status = cluster.status()
        if node and status.member(node) is None:
            known = ", ".join(each.node for each in status.members)
            raise ObjectNotFound(f"no node '{node}' in the cell '{status.cell}': nodes are {known}")
        reason = status.why_critical(node or status.leader)
        return ok() if reason is None else failed(reason)

    async def alone(self, request: Request) -> Response:
        return ok(reason=ALONE)

    async def is_in_service(self, request: Request) -> Response:
        if self._broker.is_stopping:
            return failed("the node is stopping")
        return ok()

    async def ready_to_serve_clients(self, request: Request) -> Response:
        """A standby is ready while there is a leader to relay to, which responds to this."""
        reason = why_not_ready(self._context)
        return ok() if reason is None else failed(reason)

    async def certificate_expiration(self, request: Request) -> Response:
        """Fails if the certificate of the TLS listeners expires within this period."""
        within, unit = (unquote(request.path_params[name]) for name in ("within", "unit"))
        if unit not in DAYS:
            raise BadRequest(f"Time unit not recognised: '{unit[:LONGEST_SHOWN]}'. Supported units: {', '.join(DAYS)}.")
        periods = _number(within)
        if not 0 < periods <= MOST_PERIODS:
            problem = f"'{within[:LONGEST_SHOWN]}' is not a number from 1 to {MOST_PERIODS}"
            raise BadRequest(f"Invalid expiration value: {problem}")
        path = self._context.settings.tls_cert
        if path is None:
            return ok()
        try:
            ends = await self._context.in_worker(lambda: certificate_end(path.read_text(encoding="ascii")))
        except (OSError, ValueError) as problem:
            return failed(f"the certificate cannot be read: {problem}")
        left = ends - self._context.clock.wall()
        if left < periods * DAYS[unit] * DAY:
            ending = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(ends))
            return failed("Certificates expiring", expired=[{"node": self._broker.node_name, "ends_at": ending}])
        return ok()

    async def node(self, request: Request) -> Response:
        """All checks at once, as in older versions of RabbitMQ."""
        name = unquote(request.path_params.get("name", self._broker.node_name))
        if name != self._broker.node_name:
            return self._other_node(name)
        if self._broker.is_lost or self._broker.alarms:
            return failed(f"resource alarm(s) in effect: {', '.join(self._broker.alarms.values())}")
        return ok()

    def _other_node(self, name: str) -> Response:
        cluster = self._context.cluster
        member = None if cluster is None else cluster.status().member(name)
        if member is None:
            raise ObjectNotFound(f"no node '{name}': this node is '{self._broker.node_name}'")
        return ok() if member.is_connected else failed(f"node '{name}' is not connected to the leader")

    # ---- aliveness

    async def aliveness(self, request: Request) -> Response:
        vhost = vhost_of(request)
        access = access_of(request, vhost)
        access.check("declare queue", ALIVENESS)
        access.check("publish", "")
        access.check("get", ALIVENESS)
        if self._broker.alarms:
            return failed(f"publishers are blocked: {', '.join(self._broker.alarms.values())}")
        session = LocalSession(access, lambda tag, delivered: None)
        try:
            if vhost.queues.get(ALIVENESS) is None:
                vhost.declare_queue(ALIVENESS)
                await wait_until_durable(self._broker)
            session.publish("", ALIVENESS, b"test_message")
            found = await self._got(session)
        except (HttpError, AmqpError) as problem:
            return failed(str(problem))
        finally:
            session.close()
            self._broker.wake()
        if found is None:
            return failed(
                f"the message that was published to queue '{ALIVENESS}' in vhost '{vhost.name}' was not found"
            )
        return ok()

    async def _got(self, session: LocalSession) -> Delivered | None:
        """The message, also if the queue is in another cell."""
        self._broker.wake()
        await until_answered(session.receipts)

        def start(done: Callable[[Delivered | LeveretError | None], None]) -> None:
            def take() -> None:
                try:
                    done(session.get(ALIVENESS, auto_ack=True))
                except AmqpError as problem:
                    done(problem)

            queue = session.vhost.queues.get(ALIVENESS)
            if queue is None or not queue.when_loaded(take):
                take()
            self._broker.wake()

        return await awaited(start)
