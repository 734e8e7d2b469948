"""What the tags of a user allow over HTTP, as RabbitMQ's management has it.

    management     sees what belongs to the virtual hosts that it may enter, and its own connections
    policymaker    the same, and sets policies and parameters there
    monitoring     the same as management, and sees all virtual hosts, connections and nodes
    administrator  everything

A user without any of them has no business here. What is done to a queue or an exchange asks for permissions as well,
the same as over AMQP.
"""

from __future__ import annotations

from collections.abc import Iterable

from starlette.requests import Request

from leveret.auth.users import User
from leveret.broker.access import may_enter
from leveret.broker.vhost import Vhost
from leveret.http.errors import NotLoggedIn, Refused
from leveret.http.login import broker_of, user_of

ADMINISTRATOR, MONITORING, POLICYMAKER, MANAGEMENT = "administrator", "monitoring", "policymaker", "management"
ROLES = (ADMINISTRATOR, MONITORING, POLICYMAKER, MANAGEMENT)
IMPLIED = {
    MANAGEMENT: frozenset(ROLES),
    POLICYMAKER: frozenset({POLICYMAKER, ADMINISTRATOR}),
    MONITORING: frozenset({MONITORING, ADMINISTRATOR}),
    ADMINISTRATOR: frozenset({ADMINISTRATOR}),
}
"""For each role the tags that carry it."""


def has_role(user: User, role: str) -> bool:
    return not IMPLIED[role].isdisjoint(user.tags)


def refuse_unless_role(request: Request, role: str) -> User:
    """The user who asks, if it may act in this role."""
    user = user_of(request)
    if not has_role(user, MANAGEMENT):
        raise NotLoggedIn(
            f"not a management user: user '{user.name}' has none of the tags {', '.join(ROLES)}; an administrator can "
            "give it one"
        )
    if not has_role(user, role):
        raise Refused(f"user '{user.name}' needs the tag '{role}' for this")
    return user


def may_see(request: Request, vhost: str) -> bool:
    """Whether the virtual host and what is in it may be shown to the user."""
    user = user_of(request)
    return has_role(user, MONITORING) or may_enter(broker_of(request).permissions, user.name, vhost)


def visible_vhosts(request: Request) -> Iterable[Vhost]:
    return [vhost for name, vhost in sorted(broker_of(request).vhosts.items()) if may_see(request, name)]
