"""Changes of users and permissions, recorded as rows of the definitions before they take effect."""

from __future__ import annotations

from collections.abc import Callable

from leveret.auth.permissions import AnyPermission
from leveret.auth.users import User
from leveret.broker.rows import rule_dropped, rule_saved, user_row
from leveret.store.definitions import Change, Drop, Put, UserRow


class AuthRecords:
    """``forget_routes``: remembered publish routes depend on permissions."""

    def __init__(self, record: Callable[[Change], None], forget_routes: Callable[[], None]) -> None:
        self._record = record
        self._forget_routes = forget_routes

    def user_saved(self, user: User) -> None:
        self._record(Put(user_row(user)))

    def user_deleted(self, name: str) -> None:
        self._record(Drop(UserRow, (name,)))

    def rule_saved(self, rule: AnyPermission) -> None:
        self._record(rule_saved(rule))

    def rule_dropped(self, rule: AnyPermission) -> None:
        self._record(rule_dropped(rule))

    def rules_changed(self) -> None:
        self._forget_routes()
