"""URIs of several brokers, with the options of ActiveMQ's clients.

    failover:(amqp://a,amqp://b)?randomize=false&maxReconnectAttempts=10
    fanout:(amqp://a,amqp://b)?minAckCount=2

Times are in milliseconds. ``nested.NAME=VALUE`` is an option of each address in the parentheses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlencode

from leveret.client.address import Address, parsed
from leveret.client.errors import AddressError
from leveret.client.option_reader import OptionReader, given

FOR_EVER = -1
AUDITED = 16_384  # IDs of each queue that a connection remembers
MOST_MULTIPLIER = 1e6


@dataclass(slots=True, frozen=True)
class Backoff:
    """Seconds between two rounds of attempts."""

    initial: float = 0.01
    maximum: float = 30.0
    multiplier: float = 2.0
    is_exponential: bool = True

    def delays(self) -> Iterator[float]:
        """The first round starts at once."""
        yield 0.0
        delay = min(self.initial, self.maximum)
        while True:
            yield delay
            if self.is_exponential:
                delay = min(delay * self.multiplier, self.maximum)


@dataclass(slots=True, frozen=True)
class Plan:
    """Which brokers to connect to, how often, and how long calls wait for a connection."""

    addresses: tuple[Address, ...]
    backoff: Backoff = field(default_factory=Backoff)
    attempts: int = FOR_EVER  # rounds through all addresses after a loss; 0: none
    startup_attempts: int = FOR_EVER  # the same for the first connection
    is_shuffled: bool = True
    patience: float | None = None  # seconds that calls and publishes wait for a connection
    is_audited: bool = True  # whether the application is protected from duplicates
    audit_depth: int = AUDITED
    learns_nodes: bool = True  # whether the nodes that a broker announces are tried, too
    is_fanout: bool = False
    confirmations: int = 2  # fanout: how many brokers must confirm a message

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
        raise AddressError(
            f"{scheme}: has an address without a scheme such as amqp://: write a comma inside an address as %2C"
        )
    addresses = tuple(_address(each, nested) for each in uris)
    if not addresses:
        raise AddressError(f"{scheme}: has no broker address: write {scheme}:(amqp://one,amqp://another)")
    return _plan(scheme, own, addresses)


def _halves(scheme: str, rest: str) -> tuple[str, dict[str, str]]:
    """The text in the parentheses, and the options after them. Without parentheses it is one address."""
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


def _plan(scheme: str, own: Mapping[str, str], addresses: tuple[Address, ...]) -> Plan:
    is_fanout = scheme == "fanout"
    options = OptionReader(own, AddressError, f"{scheme}:", others=("nested.NAME",))
    backoff = Backoff(
        initial=given(options.whole("initialReconnectDelay", 1), 10) / 1000,
        maximum=given(options.whole("maxReconnectDelay", 1), 30_000) / 1000,
        multiplier=given(options.decimal("backOffMultiplier", 1, MOST_MULTIPLIER), 2.0),
        is_exponential=given(options.truth("useExponentialBackOff"), True),
    )
    attempts = given(options.whole("maxReconnectAttempts", FOR_EVER), FOR_EVER)
    startup = given(options.whole("startupMaxReconnectAttempts", FOR_EVER), FOR_EVER)
    patience = given(options.whole("timeout", FOR_EVER), FOR_EVER)
    plan = Plan(
        addresses,
        backoff,
        attempts=attempts,
        startup_attempts=attempts if startup == FOR_EVER else startup,
        is_shuffled=not is_fanout and given(options.truth("randomize"), True),
        patience=None if patience == FOR_EVER else patience / 1000,
        is_audited=not is_fanout and given(options.truth("checkForDuplicates"), True),
        audit_depth=AUDITED if is_fanout else given(options.whole("auditDepth", 1), AUDITED),
        learns_nodes=not is_fanout and given(options.truth("updateURIsSupported"), True),
        is_fanout=is_fanout,
        confirmations=_confirmations(options, scheme, len(addresses)) if is_fanout else 1,
    )
    options.refuse_left()
    return plan


def _confirmations(options: OptionReader, scheme: str, brokers: int) -> int:
    count = given(options.whole("minAckCount", 1), min(2, brokers))
    if count > brokers:
        raise AddressError(f"'minAckCount' is {count}, but {scheme}: names {brokers} brokers: lower it")
    return count
