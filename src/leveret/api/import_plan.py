"""The plan of an import of definitions: its steps and problems, and the objects that it creates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from leveret.broker.broker import Broker
from leveret.broker.vhost import Vhost
from leveret.errors import LeveretError
from leveret.http.authorization import LONGEST_NAME, refuse_bad_name
from leveret.http.errors import BadRequest
from leveret.http.rows import Row
from leveret.http.values import excerpt, is_encodable
from leveret.routing.exchange import Exchange
from leveret.routing.types import PREDECLARED
from leveret.schemas.schema import Schema

State = Literal["created", "changed", "existing"]
Key = tuple[str, str]  # virtual host, name


class Impossible(LeveretError):
    """A definition that cannot be imported, with its own remedy."""

    def __init__(self, cause: str, remedy: str) -> None:
        super().__init__(cause)
        self.cause = cause
        self.remedy = remedy


class Step(NamedTuple):
    kind: str
    name: str
    vhost: str | None
    state: State
    apply: Callable[[], None] | None  # None: no change


class Plan:
    """The steps and problems so far, and the names of existing and planned objects."""

    def __init__(self, broker: Broker, into: str | None) -> None:
        self.broker = broker
        self.into = into
        self.steps: list[Step] = []
        self.problems: list[Row] = []
        self.can_skip = True  # the problems are those of single objects
        self.ignored: list[str] = []
        self.vhosts = {*broker.vhosts}
        self.cells: dict[str, str] = {}  # of the virtual hosts in the file
        self.users = {user.name for user in broker.users.list()}
        self.exchanges: dict[Key, Exchange] = {}  # planned ones; they are not declared
        self.queues: dict[Key, tuple[object, ...]] = {}
        self.limits: dict[str, Mapping[str, int]] = {}
        self.topic_rules = {(rule.user, rule.vhost, rule.exchange): rule for rule in broker.permissions.list_topic()}
        self.globals = broker.parameters.all()
        self.to_hash: str | None = None  # the password of the user that was checked last
        self.made_hashes: dict[str, str] = {}
        self.schema: Schema | LeveretError | None = None  # in the row that is checked next, or why it is refused

    def vhost_of(self, row: Row) -> str:
        name = self.into if self.into is not None else row.get("vhost")
        refuse_bad_name(name, "vhost")
        assert isinstance(name, str)
        if name not in self.vhosts:
            raise Impossible(
                f"vhost '{name}' not found", "create the vhost first, or add it to the file under 'vhosts'"
            )
        return name

    def vhost_here(self, row: Row) -> str:
        """The virtual host of an exchange, a queue or a binding."""
        name = self.vhost_of(row)
        here = self.here(name)
        cell = self.cells.get(name) or ("" if here is None else here.cell)
        if not self.broker.cells.is_here(cell):
            raise Impossible(
                f"vhost '{name}' is in cell {cell}, and definitions are imported in cell {self.broker.cells.name}",
                "remove it from the file, and declare it over AMQP",
            )
        return name

    def here(self, vhost: str) -> Vhost | None:
        return self.broker.vhosts.get(vhost)

    def exchange(self, vhost: str, name: str) -> Exchange | None:
        here = self.here(vhost)
        if here is not None and name in here.exchanges:
            return here.exchanges[name]
        kind = dict(PREDECLARED).get(name)
        if kind is not None:
            return self.broker.exchange_types.make(kind, name, durable=True)
        return self.exchanges.get((vhost, name))

    def has_queue(self, vhost: str, name: str) -> bool:
        here = self.here(vhost)
        return (vhost, name) in self.queues or (here is not None and name in here.queues)


def step_to(kind: str, name: str, vhost: str | None, before: object, after: object, apply: Callable[[], None]) -> Step:
    """``before`` is None if the object does not exist."""
    if before is None:
        return Step(kind, name, vhost, "created", apply)
    return Step(kind, name, vhost, "existing", None) if before == after else Step(kind, name, vhost, "changed", apply)


def name_in(row: Row, key: str = "name") -> str:
    refuse_bad_name(row.get(key), key)
    return str(row[key])


def short_text_in(row: Row, name: str) -> str:
    """A short string of AMQP: up to 255 bytes, with any characters."""
    text = row.get(name)
    if not isinstance(text, str) or not is_encodable(text):
        raise BadRequest(f"'{name}' must be a string, not {excerpt(text)}")
    if len(text.encode()) > LONGEST_NAME:
        raise BadRequest(f"'{name}' is longer than {LONGEST_NAME} bytes: {excerpt(text)}")
    return text


def amqp_name_in(row: Row, key: str = "name") -> str:
    """The name of an exchange or a queue."""
    name = row.get(key)
    if not isinstance(name, str) or not is_encodable(name) or not 1 <= len(name.encode()) <= LONGEST_NAME:
        raise BadRequest(f"'{key}' must be a string of 1 to {LONGEST_NAME} bytes, not {excerpt(name)}")
    return name
