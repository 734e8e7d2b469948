"""The permission rules: users of every tag with every kind of permissions, and the expected response for each.

Nothing here looks at the broker's own decisions: ``outcome`` is the rule in a few lines, and the tests hold the broker
to it.
"""

from __future__ import annotations

from typing import NamedTuple

from leveret import Broker
from leveret.api.openapi.description import Needs

VHOST, OTHER = "matrix", "elsewhere"
PASSWORD = "secret"
ALL, NONE = ".*", ""

TAGS = ("", "management", "policymaker", "monitoring", "administrator")
RIGHTS: dict[str, dict[str, str] | None] = {
    "all": {"configure": ALL, "write": ALL, "read": ALL},
    "nothing": {"configure": NONE, "write": NONE, "read": NONE},
    "configure": {"configure": ALL, "write": NONE, "read": NONE},
    "write": {"configure": NONE, "write": ALL, "read": NONE},
    "read": {"configure": NONE, "write": NONE, "read": ALL},
    "other vhost": None,  # all permissions, but elsewhere
}
CARRIED = {  # for each role the tags that have it
    "management": {"management", "policymaker", "monitoring", "administrator"},
    "policymaker": {"policymaker", "administrator"},
    "monitoring": {"monitoring", "administrator"},
    "administrator": {"administrator"},
}


class MatrixUser(NamedTuple):
    tag: str
    rights: str

    @property
    def name(self) -> str:
        return f"{self.tag or 'untagged'} with {self.rights}"

    @property
    def may_enter(self) -> bool:
        return RIGHTS[self.rights] is not None

    def has(self, permission: str) -> bool:
        """A permission begins with its kind; "any" is one of them, whichever."""
        kind = permission.partition(" ")[0]
        given = RIGHTS[self.rights] or {}
        return any(given.values()) if kind == "any" else given.get(kind) == ALL

    def is_a(self, role: str) -> bool:
        return self.tag in CARRIED[role]


USERS = tuple(MatrixUser(tag, rights) for tag in TAGS for rights in RIGHTS)


def outcome(needs: Needs, user: MatrixUser) -> int:
    """401 or 403, or 0 if it is allowed."""
    if needs.role:
        if not user.is_a("management"):
            return 401
        if not user.is_a(needs.role):
            return 403
    enters = {
        "none": True,
        "see": user.may_enter or user.is_a("monitoring"),
        "enter": user.may_enter,
        "change": user.may_enter or user.is_a("administrator"),
    }
    if not enters[needs.entry]:
        return 403
    return 0 if all(user.has(permission) for permission in needs.permissions) else 403


def add_users(broker: Broker) -> None:
    def add() -> None:
        core = broker.node.broker
        for vhost in (VHOST, OTHER):
            core.add_vhost(vhost)
        for user in USERS:
            core.users.add(user.name, password=PASSWORD, tags=[user.tag] if user.tag else [])
            given = RIGHTS[user.rights]
            if given is None:
                core.permissions.set(user.name, OTHER, ALL, ALL, ALL)
            else:
                core.permissions.set(user.name, VHOST, given["configure"], given["write"], given["read"])

    broker.call(add)
