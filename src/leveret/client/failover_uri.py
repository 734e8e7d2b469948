"""Several brokers in one URI, with the options that ActiveMQ's clients know.

    failover:(amqp://a,amqp://b)?randomize=false&maxReconnectAttempts=10
    fanout:(amqp://a,amqp://b)?minAckCount=2

Times are in milliseconds. ``nested.NAME=VALUE`` is an option for each of the addresses in the parentheses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlencode

from leveret.client.address import Address, parsed
from leveret.client.backoff import Backoff
from leveret.client.errors import AddressError

FOR_EVER = -1
AUDITED = 16_384  # ids of each queue that a connection remembers


@dataclass(slots=True, frozen=True)
class Plan:
    """Where to connect to, how often to try, and how long others wait for it."""

    addresses: tuple[Address, ...]
    backoff: Backoff = field(default_factory=Backoff)
    attempts: int = FOR_EVER  # rounds through all addresses after a loss; 0: none
    startup_attempts: int = FOR_EVER  # the same for the first connection; without a number of its own as above
    is_shuffled: bool = True
    patience: float | None = None  # seconds that calls and messages wait while there is no connection
    is_audited: bool = True  # whether duplicates are kept from the application
    audit_depth: int = AUDITED
    confirmations: int = 2  # fanout: as many brokers must have a message

    @property
    def shown(self) -> str:
        return ", ".join(address.shown for address in self.addresses)


def is_plan(uri: str) -> bool:
    return uri.startswith(("failover:", "fanout:"))


def plan_of(uri: str) -> Plan:
    scheme, _, rest = uri.partition(":")
    inner, options = _halves(scheme, rest.removeprefix("//"))
    nested = {name.removeprefix("nested."): value for name, value in options.items() if name.startswith("nested.")}
    own = {name: value for name, value in options.items() if not name.startswith("nested.")}
    uris = [each.strip() for each in inner.split(",") if each.strip()]
    if any("://" not in uri for uri in uris):
        raise AddressError(f"{scheme}: has an address without amqp:// or the like: a , within one is written %2C")
    addresses = tuple(_address(each, nested) for each in uris)
    if not addresses:
        raise AddressError(f"{scheme}: names no broker: write {scheme}:(amqp://one,amqp://another)")
    return _Options(scheme, own).plan(addresses)


def _halves(scheme: str, rest: str) -> tuple[str, dict[str, str]]:
    """What is in the parentheses, and the options behind them. Without parentheses all is one address."""
    if not rest.startswith("("):
        return rest, {}
    inner, closing, behind = rest[1:].rpartition(")")
    if not closing or (behind and not behind.startswith("?")):
        raise AddressError(f"{scheme}: is written {scheme}:(ADDRESS,ADDRESS)?option=value, with both parentheses")
    return inner, dict(parse_qsl(behind[1:], keep_blank_values=True))


def _address(uri: str, nested: Mapping[str, str]) -> Address:
    if nested:
        uri += ("&" if "?" in uri else "?") + urlencode(nested)
    return parsed(uri)


class _Options:
    """Takes the options one by one; what is left is unknown."""

    def __init__(self, scheme: str, given: dict[str, str]) -> None:
        self._scheme = scheme
        self._left = given
        self._known: list[str] = []

    def plan(self, addresses: tuple[Address, ...]) -> Plan:
        is_fanout = self._scheme == "fanout"
        backoff = Backoff(
            initial=self._whole("initialReconnectDelay", 10, least=1) / 1000,
            maximum=self._whole("maxReconnectDelay", 30_000, least=1) / 1000,
            multiplier=self._decimal("backOffMultiplier", 2.0),
            is_exponential=self._flag("useExponentialBackOff", default=True),
        )
        attempts = self._whole("maxReconnectAttempts", FOR_EVER, least=FOR_EVER)
        startup = self._whole("startupMaxReconnectAttempts", FOR_EVER, least=FOR_EVER)
        patience = self._whole("timeout", FOR_EVER, least=FOR_EVER)
        plan = Plan(
            addresses,
            backoff,
            attempts=attempts,
            startup_attempts=attempts if startup == FOR_EVER else startup,
            is_shuffled=not is_fanout and self._flag("randomize", default=True),
            patience=None if patience == FOR_EVER else patience / 1000,
            is_audited=not is_fanout and self._flag("checkForDuplicates", default=True),
            audit_depth=AUDITED if is_fanout else self._whole("auditDepth", AUDITED, least=1),
            confirmations=self._confirmations(len(addresses)) if is_fanout else 1,
        )
        self._refuse_unknown()
        return plan

    def _confirmations(self, brokers: int) -> int:
        count = self._whole("minAckCount", min(2, brokers), least=1)
        if count > brokers:
            raise AddressError(f"'minAckCount' is {count}, but {self._scheme}: names {brokers} brokers: lower it")
        return count

    def _whole(self, name: str, usual: int, *, least: int) -> int:
        text = self._take(name)
        if text is None:
            return usual
        if not text.removeprefix("-").isdecimal() or int(text) < least:
            raise AddressError(f"'{name}' of {self._scheme}: must be a whole number from {least} on: {text}")
        return int(text)

    def _decimal(self, name: str, usual: float) -> float:
        text = self._take(name)
        try:
            value = usual if text is None else float(text)
        except ValueError:
            value = 0.0
        if not 1.0 <= value < 1e6:
            raise AddressError(f"'{name}' of {self._scheme}: must be a number from 1 on: {text}")
        return value

    def _flag(self, name: str, *, default: bool) -> bool:
        text = self._take(name)
        if text is None:
            return default
        if text not in ("true", "false"):
            raise AddressError(f"'{name}' of {self._scheme}: must be true or false: {text}")
        return text == "true"

    def _take(self, name: str) -> str | None:
        self._known.append(name)
        return self._left.pop(name, None)

    def _refuse_unknown(self) -> None:
        for name in self._left:
            known = ", ".join(self._known)
            raise AddressError(f"{self._scheme}: has an unknown option '{name}': known are {known}, nested.NAME")
