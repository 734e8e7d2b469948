"""The columns of messages in Arrow, by name: what goes out, and what may come in.

Nothing of Arrow is imported here: a broker runs without it, and answers 501 where it is needed (``need_arrow``). The
files that work on columns import it at their top; the others import those files when they are first asked.
"""

from __future__ import annotations

from collections.abc import Sequence

from leveret.http.errors import BadRequest, NotAvailable

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
INCOMING = ("body", "routing_key", "exchange", "headers", "properties")

MOST_ROWS = 10_000  # of one batch
MOST_BYTES = 8 << 20  # of the contents in one batch
END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"


def chosen_columns(text: str | None) -> tuple[str, ...]:
    """The columns that ``columns=a,b`` asks for, in the order of the schema; all if it is left out."""
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
            f"messages travel as Arrow, and the broker cannot import it ({problem}): pip install 'leveret[arrow]'"
        ) from None
