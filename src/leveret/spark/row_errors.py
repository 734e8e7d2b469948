"""The text of an error of a row: it becomes the value of a column, and a header of the dead letter.

It may have parts of the body. Arrow refuses texts with lone surrogates, which JSON can have, and the broker refuses
long headers: either would stop a query for good.
"""

from __future__ import annotations

LONGEST_ERROR = 500  # characters


def row_error(text: str) -> str:
    return text[:LONGEST_ERROR].encode("utf-8", "backslashreplace").decode()
