"""Bounds on the work of routing. Hot path.

All connections share one event loop, and bindings come from clients, so the cost of one message is bounded. The unit is
a *step*, about 40 ns of CPU time; the constants below are the steps of each kind of work. There are two bounds:

- ``Bounds.steps`` for one message, over all exchanges and keys that it visits. Above this bound, routing raises
  ``RoutingRefused``: the publisher gets an error, and no queue gets the message.
- ``TICK_STEPS`` for all messages and methods of one tick of the event loop. Above this bound a connection waits for the
  next tick (``Connection.wait_for_tick``), so the others go first. Cached routes and acks take no steps and never wait.

Messages that the broker itself routes (dead letters, scheduled messages) have no publisher that could wait. They share
``UNATTENDED_STEPS`` per tick instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from leveret.errors import PreconditionFailed

if TYPE_CHECKING:
    from leveret.routing.bindings import Binding, Bindings
    from leveret.routing.exchange import Exchange

EXCHANGE_STEPS = 100  # an exchange, with the first nodes of its trie
NODE_STEPS = 10  # a node of a topic trie, for one word of the key; a destination that is sorted
RULE_STEPS = 8  # a binding of a headers exchange, with up to FREE_HEADERS arguments
FREE_HEADERS = 4
HEADER_STEPS = 8  # each further argument of such a binding
SCORE_STEPS = 12  # a destination of a consistent hash exchange
METHOD_STEPS = 1_000  # a method other than publish and ack, plus
BYTE_STEPS = 4  # each byte of it

TICK_STEPS = 50_000
UNATTENDED_STEPS = 5_000_000


STEPS = 250_000


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of a node; see the settings of the same names."""

    steps: int = STEPS
    exchange_bindings: int = 200_000
    vhost_bindings: int = 1_000_000
    pattern_hashes: int = 16  # '#' in one topic pattern

    def refuse(self, binding: Binding, source: Exchange, bindings: Bindings) -> None:
        """PreconditionFailed if this binding would exceed a bound."""
        reason = source.exceeds(binding, self)
        if reason is None and bindings.number_of(source.name) >= self.exchange_bindings:
            reason = f"it has {self.exchange_bindings} bindings already, as many as max_exchange_bindings allows"
        if reason is None and len(bindings) >= self.vhost_bindings:
            reason = (
                f"its virtual host has {self.vhost_bindings} bindings already, as many as max_vhost_bindings allows"
            )
        if reason is not None:
            raise PreconditionFailed(
                f"cannot bind {binding.destination.kind} '{binding.destination.name}' to exchange '{source.name}' with "
                f"key '{binding.key}': {reason}"
            )


class RoutingRefused(PreconditionFailed):
    """Routing a message would take more steps than allowed."""


class RoutingWork:
    """The steps left for the message that is being routed, and the steps taken in this tick; one object per broker."""

    __slots__ = ("allowed", "left", "refused", "spent")

    def __init__(self, allowed: int = STEPS) -> None:
        self.allowed = allowed
        self.spent = 0  # in this tick
        self.refused = 0  # messages, since the start
        self.left = allowed

    @property
    def is_spent(self) -> bool:
        """Whether the remaining routing should wait for the next tick."""
        return self.spent > TICK_STEPS

    def spend(self, steps: int) -> None:
        """Take steps; RoutingRefused if fewer are left."""
        self.spent += steps
        self.left -= steps
        if self.left < 0:
            raise RoutingRefused(
                f"its bindings take more than {self.allowed} routing steps; remove bindings with '#', '*', x-selector "
                "or many headers, or raise max_routing_steps"
            )
