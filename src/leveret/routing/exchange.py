"""The contract of an exchange type.

An exchange holds its own view of the bindings that lead away from it, in whatever shape makes matching fast, and
answers which destinations a message reaches. It knows no queues and keeps no messages. A new type makes its empty
view in ``prepare`` and overrides ``bind``, ``unbind`` and ``destinations``; everything else has a default.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import ClassVar

from leveret.errors import PreconditionFailed
from leveret.routing.bindings import Binding, Destination

ALTERNATE_EXCHANGE = "alternate-exchange"


class Exchange(ABC):
    """One exchange of a virtual host.

    ``alternate`` comes from the argument; a policy may set it later where the argument is absent. The two questions
    are answered per type, and an instance whose arguments decide otherwise may answer for itself:

    - ``looks_at_headers``: routes by more than the key (headers, chance, load), so a route must not be remembered.
    - ``looks_at_key``: False lets the router ask once for a message that carries several keys (CC, BCC).
    """

    kind: ClassVar[str]
    looks_at_headers: bool = False
    looks_at_key: bool = True

    def __init__(
        self,
        name: str,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Mapping[str, object] | None = None,
    ) -> None:
        self.name = name
        self.durable = durable
        self.auto_delete = auto_delete
        self.internal = internal
        self.arguments: Mapping[str, object] = {} if arguments is None else arguments
        self.alternate: str | None = self._alternate_from_arguments()
        self.prepare()

    def prepare(self) -> None:  # noqa: B027 - a hook with nothing to do by default
        """Read the arguments of the type, refusing bad ones by PreconditionFailed, and make the empty view."""

    def validate_binding(self, binding: Binding) -> None:  # noqa: B027 - most types take every binding
        """Refuse, by PreconditionFailed, a binding this type cannot use. Called before ``bind``; changes nothing."""

    @abstractmethod
    def bind(self, binding: Binding) -> None:
        """Take in a binding that is valid and not yet there."""

    @abstractmethod
    def unbind(self, binding: Binding) -> None:
        """Let go of a binding that was taken in before."""

    @abstractmethod
    def destinations(self, key: str, headers: Mapping[str, object]) -> Iterable[Destination]:
        """Where the message goes. May repeat a destination; is read at once, before any further bind or unbind."""

    def _alternate_from_arguments(self) -> str | None:
        alternate = self.arguments.get(ALTERNATE_EXCHANGE)
        if alternate is None or isinstance(alternate, str):
            return alternate
        raise PreconditionFailed(
            f"invalid type '{type(alternate).__name__}' for arg '{ALTERNATE_EXCHANGE}' in exchange '{self.name}': "
            "expected a string"
        )
