"""The Arrow columns of messages by name: those of responses, and those accepted in requests.

This module does not import Arrow: the broker runs without it, and answers 501 where it is needed (``need_arrow``).
Modules that work on columns import it at the top; other modules import them when they are first used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from leveret.http.errors import BadRequest, NotAvailable
from leveret.http.values import boolean_of

MEDIA_TYPE = "application/vnd.apache.arrow.stream"

COLUMNS = (
    "body",
    "routing_key",
    "exchange",
    "queue",
    "partition",
    "offset",
    "timestamp",
    "redelivered",
    "headers",
    "properties",
)
PROPERTIES = (
    "content_type",
    "content_encoding",
    "delivery_mode",
    "priority",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "timestamp",
    "type",
    "user_id",
    "app_id",
)
INCOMING = ("body", "routing_key", "exchange", "headers", "properties", "mandatory")

MOST_ROWS = 10_000  # of one batch
MOST_BYTES = 8 << 20  # of the contents in one batch
END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"


class Columns(tuple[str, ...]):
    """The columns of a response, and whether those with one value are left out (pipeline/constant_columns.py)."""

    omit_constants = False


def columns_of(given: Mapping[str, str]) -> Columns:
    """The columns that a request asks for by ``columns`` and ``omit_constants``."""
    columns = Columns(chosen_columns(given.get("columns")))
    columns.omit_constants = boolean_of(given, "omit_constants")
    return columns


def chosen_columns(text: str | None) -> tuple[str, ...]:
    """The columns named in ``columns=a,b``, in the order of the schema; all by default."""
    if text is None:
        return COLUMNS
    wanted = {name.strip() for name in text.split(",")}
    unknown = sorted(wanted - set(COLUMNS))
    if unknown:
        raise BadRequest(f"unknown column '{unknown[0]}' in 'columns': choose from {', '.join(COLUMNS)}")
    return tuple(name for name in COLUMNS if name in wanted)


def refuse_strange_columns(names: Sequence[str]) -> None:
    strange = [name for name in names if name not in INCOMING]
    if strange:
        raise BadRequest(f"column '{strange[0]}' cannot be published: name columns {', '.join(INCOMING)} only")
    if len(set(names)) != len(names):
        raise BadRequest("duplicate column name")
    if "body" not in names:
        raise BadRequest("column 'body' is missing: it holds the message bodies")


def need_arrow() -> None:
    """Import pyarrow, or raise an error with the remedy. The first import is slow: call it in a thread."""
    try:
        import numpy  # noqa: F401
        import pyarrow  # noqa: F401
    except ImportError as problem:
        raise NotAvailable(
            f"messages are sent as Arrow, and the broker cannot import it ({problem}): pip install 'leveret[arrow]'"
        ) from None
