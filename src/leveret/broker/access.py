"""The permissions of one user in one virtual host, compared with the permission rules.

All protocols check permissions here and refuse with the same error texts. No other module looks up permissions
(tests/test_architecture.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from leveret.auth.permissions import EVERYTHING, Kind, Permissions
from leveret.auth.users import User
from leveret.broker.permission_rules import NO_ARGUMENTS, Arguments, Need, Operation, Subject, TopicNeed, needs_of
from leveret.broker.publish_rules import PUBLISH
from leveret.broker.vhost import Pool, Vhost
from leveret.errors import AccessRefused, NotAllowed, PreconditionFailed

if TYPE_CHECKING:
    from leveret.broker.broker import Broker

KINDS: tuple[Kind, ...] = ("configure", "write", "read")
IMPERSONATOR = "impersonator"  # the tag of users that may publish in the name of others
DEFAULT_EXCHANGE = "amq.default"  # the name under which permissions on the exchange without a name are set


def in_process_access(vhost: Vhost) -> UserAccess:
    """Access for code in the broker's process, which is not limited by permissions."""
    permissions = Permissions()
    permissions.set("", vhost.name, EVERYTHING, EVERYTHING, EVERYTHING)
    return UserAccess(permissions, vhost, "", (IMPERSONATOR,))


def access_to(broker: Broker, vhost: str, user: User) -> UserAccess:
    """Access for a client that opens a virtual host; NotAllowed unless the user has permissions there."""
    found = broker.vhosts.get(vhost)
    if found is None:
        raise NotAllowed(f"vhost {vhost} not found")
    if not may_enter(broker.permissions, user.name, vhost):
        raise NotAllowed(f"access to vhost '{vhost}' refused for user '{user.name}'")
    return UserAccess(broker.permissions, found, user.name, user.tags)


def may_enter(permissions: Permissions, user: str, vhost: str) -> bool:
    return permissions.permits_entry(user, vhost)


class UserAccess(NamedTuple):
    permissions: Permissions
    vhost: Vhost
    user: str
    tags: Sequence[str] = ()

    def check(
        self,
        operation: Operation,
        name: str,
        *,
        source: str = "",
        keys: Sequence[str] = (),
        arguments: Arguments = NO_ARGUMENTS,
    ) -> None:
        """AccessRefused unless the user has every permission that the operation needs."""
        if self.permissions.permits_everything(self.user, self.vhost.name):
            return  # most users; called for each publish with a new routing key
        for need in needs_of(self.vhost, operation, Subject(name, source, keys, arguments)):
            if not self.allows(need):
                raise AccessRefused(self._refusal(need))

    def check_user_id(self, user_id: str | None) -> None:
        """The property user_id of a message, if it has one, must be the name of the user."""
        if user_id not in (None, self.user) and IMPERSONATOR not in self.tags:
            text = f"user_id property set to '{user_id}' but authenticated user was '{self.user}'"
            raise PreconditionFailed(text, method=PUBLISH)

    def allows(self, need: Need | TopicNeed) -> bool:
        if isinstance(need, TopicNeed):
            return self._allows_topic(need)
        return self.has_any(need.name) if need.kind == "any" else self.has(need.kind, need.name)

    def has(self, kind: Kind, name: str) -> bool:
        return self.permissions.permits(self.user, self.vhost.name, kind, name)

    def has_any(self, name: str) -> bool:
        """Whether the user has any permission on the object: one is enough to see that the object exists."""
        return any(self.has(kind, name) for kind in KINDS)

    def pool(self, name: str) -> Pool | None:
        """The pool of this name. None as well if the user has no permission on the name or a queue of the pool: using
        the name is then refused like any queue name, which does not reveal whether the pool exists."""
        found = self.vhost.pools.get(name)
        if found is None or not (self.has_any(name) or any(self.has_any(queue.name) for queue in found.local())):
            return None
        return found

    def _allows_topic(self, need: TopicNeed) -> bool:
        exchange = self.vhost.exchanges.get(need.exchange)
        if not need.later if exchange is None else exchange.routes_as != "topic":
            return True
        if need.key is None:
            return self.permissions.permits_every_topic(self.user, self.vhost.name, need.exchange, need.kind)
        return self.permissions.permits_topic(self.user, self.vhost.name, need.exchange, need.kind, need.key)

    def _refusal(self, need: Need | TopicNeed) -> str:
        refused = f"in vhost '{self.vhost.name}' refused for user '{self.user}'"
        if isinstance(need, TopicNeed):
            topic = "every topic" if need.key is None else f"topic '{need.key}'"
            refused = f"{need.kind} access to {topic} in exchange '{need.exchange}' {refused}"
            routed = ": messages would be routed there with keys that its topic permission does not allow"
            return refused + routed if need.later else refused
        if need.kind == "any":
            return f"access to {need.what} '{need.name}' {refused}"
        return f"{need.kind} access to {need.what} '{need.name or DEFAULT_EXCHANGE}' {refused}"
