"""User tags and the access that they grant over HTTP, as in RabbitMQ's management plugin.

    management     sees virtual hosts in which it has permissions, and its own connections
    policymaker    the same, and sets policies and parameters there
    monitoring     the same as management, and sees all virtual hosts, connections and nodes
    administrator  everything

A user without any of these tags is refused. Operations on queues and exchanges also need permissions, as over AMQP.
"""

from __future__ import annotations

from starlette.requests import Request

from leveret.auth.users import User
from leveret.broker.access import may_enter
from leveret.broker.vhost import Vhost
from leveret.http.errors import Forbidden, Unauthorized
from leveret.http.login import broker_of, user_of

ADMINISTRATOR, MONITORING, POLICYMAKER, MANAGEMENT = "administrator", "monitoring", "policymaker", "management"
ROLES = (ADMINISTRATOR, MONITORING, POLICYMAKER, MANAGEMENT)
IMPLIED = {
    MANAGEMENT: frozenset(ROLES),
    POLICYMAKER: frozenset({POLICYMAKER, ADMINISTRATOR}),
    MONITORING: frozenset({MONITORING, ADMINISTRATOR}),
    ADMINISTRATOR: frozenset({ADMINISTRATOR}),
}
"""By role, the tags that include it."""


def has_role(user: User, role: str) -> bool:
    return not IMPLIED[role].isdisjoint(user.tags)


def refuse_unless_role(request: Request, role: str) -> User:
    """The user of the request; refused unless it has this role."""
    user = user_of(request)
    if not has_role(user, MANAGEMENT):
        raise Unauthorized(
            f"not a management user: user '{user.name}' has none of the tags {', '.join(ROLES)}; an administrator can "
            "add one"
        )
    if not has_role(user, role):
        raise Forbidden(f"user '{user.name}' needs the tag '{role}' for this")
    return user


def may_see(request: Request, vhost: str) -> bool:
    """Whether the user may see the virtual host and the objects in it."""
    user = user_of(request)
    return has_role(user, MONITORING) or may_enter(broker_of(request).permissions, user.name, vhost)


def visible_vhosts(request: Request) -> list[Vhost]:
    return [vhost for name, vhost in sorted(broker_of(request).vhosts.items()) if may_see(request, name)]
