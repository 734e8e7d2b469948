"""What one user may do in one virtual host: every protocol asks here, and refuses in the same words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from leveret.auth.permissions import Kind, Permissions, TopicKind
from leveret.broker.pools import Pool
from leveret.broker.vhost import Vhost
from leveret.errors import AccessRefused
from leveret.routing.exchange import Exchange

What = Literal["queue", "exchange"]

KINDS: tuple[Kind, ...] = ("configure", "write", "read")
DEFAULT_EXCHANGE = "amq.default"  # the name under which permissions on the exchange without a name are set


class Need(NamedTuple):
    """A permission that an operation needs.

    With ``routes`` the operation makes the broker route messages to that exchange, so topic permissions are asked as
    well: for ``key``, or for every key if that is None.
    """

    kind: Kind
    what: What
    name: str
    routes: bool = False
    key: str | None = None


class UserAccess(NamedTuple):
    permissions: Permissions
    vhost: Vhost
    user: str

    def check(self, kind: Kind, what: What, name: str) -> None:
        if not self.permissions.check(self.user, self.vhost.name, kind, name):
            raise AccessRefused(f"{kind} access to {what} '{name or DEFAULT_EXCHANGE}' {self._refused}")

    def check_any(self, what: What, name: str) -> None:
        """One permission of any kind is enough to learn whether the object exists."""
        if not self.has_any(name):
            raise AccessRefused(f"access to {what} '{name}' {self._refused}")

    def may_write(self, name: str) -> bool:
        return self.permissions.check(self.user, self.vhost.name, "write", name)

    def has_any(self, name: str) -> bool:
        return any(self.permissions.check(self.user, self.vhost.name, kind, name) for kind in KINDS)

    def pool(self, name: str) -> Pool | None:
        """The pool of this name. None as well if the user has no permission on the name or a queue of the pool: using
        the name is then refused as that of any queue, which does not tell whether there is a pool."""
        found = self.vhost.pools.get(name)
        if found is None or not (self.has_any(name) or any(self.has_any(queue.name) for queue in found.local())):
            return None
        return found

    def check_topic(self, kind: TopicKind, exchange: Exchange, key: str) -> None:
        if exchange.routes_as != "topic":
            return
        if not self.permissions.check_topic(self.user, self.vhost.name, exchange.name, kind, key):
            raise AccessRefused(f"{kind} access to topic '{key}' in exchange '{exchange.name}' {self._refused}")

    def check_needs(self, needs: Iterable[Need]) -> None:
        for need in needs:
            self.check(need.kind, need.what, need.name)
            if need.routes:
                self._check_routing(need.name, need.key)

    def _check_routing(self, name: str, key: str | None) -> None:
        """An exchange that does not exist yet may be declared as a topic exchange later."""
        exchange = self.vhost.exchanges.get(name)
        if exchange is not None and exchange.routes_as != "topic":
            return
        if key is not None:
            allowed = self.permissions.check_topic(self.user, self.vhost.name, name, "write", key)
        else:
            allowed = self.permissions.check_all_topics(self.user, self.vhost.name, name, "write")
        if not allowed:
            topic = "every topic" if key is None else f"topic '{key}'"
            raise AccessRefused(
                f"write access to {topic} in exchange '{name}' {self._refused}: messages would be routed there with "
                "keys that its topic permission does not allow"
            )

    @property
    def _refused(self) -> str:
        return f"in vhost '{self.vhost.name}' refused for user '{self.user}'"
