"""Properties of a message, set by the application. They are AMQP headers, and available to selectors."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Mapping

from leveret.client.jms.errors import MessageFormatError, MessageNotWriteable
from leveret.wire.fields import FieldValue

LONGEST_NAME = 255  # bytes
WHOLE_NUMBERS = range(-(1 << 63), 1 << 63)


class MessageProperties(UserDict[str, FieldValue]):
    """Raises when a value is set that cannot be sent. Properties of a received message are read-only."""

    def __init__(self, values: Mapping[str, FieldValue] | None = None, *, is_read_only: bool = False) -> None:
        super().__init__()
        self.data = dict(values or {})  # unchecked: those of a received message can have any type
        self.is_read_only = is_read_only

    def __setitem__(self, name: str, value: FieldValue) -> None:
        self._refuse_read_only()
        if not _is_name(name):
            raise MessageFormatError(
                f"the name of a property must be a string of 1 to {LONGEST_NAME} bytes, not {name!r}"
            )
        if not isinstance(value, bool | int | float | str | bytes | None):
            raise MessageFormatError(
                f"property '{name}' is a {type(value).__name__}: expected a bool, a number, a string or bytes"
            )
        if isinstance(value, int) and value not in WHOLE_NUMBERS:
            raise MessageFormatError(f"property '{name}' is an integer of more than 64 bits: {value}; send a string")
        self.data[name] = value

    def __delitem__(self, name: str) -> None:
        self._refuse_read_only()
        del self.data[name]

    def _refuse_read_only(self) -> None:
        if self.is_read_only:
            raise MessageNotWriteable(
                "the properties of a received message can be read only: call clear_properties() first"
            )


def _is_name(name: object) -> bool:
    return isinstance(name, str) and 0 < len(name.encode(errors="replace")) <= LONGEST_NAME
