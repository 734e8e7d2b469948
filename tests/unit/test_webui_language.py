"""The texts, comments and names of the management UI use RabbitMQ's terms: words of a private dialect stay out."""

from __future__ import annotations

import re
from pathlib import Path

import leveret

WEBUI = Path(leveret.__file__).parent / "webui"
WORDS = re.compile(
    r"\b(nobody|somebody|whoever|anybody|story|biography|witness|verdict|choosy|door(?:man)|lapsed|riddle"
    r"|bury|buried|exhumed?|dies|died|dying|mend(?:ed)?|starved|deaf|equip(?:ped)?|memory mark|the page tells"
    r"|rests in|empty in|holds from now on|is there\.)\b",
    re.IGNORECASE,
)


def test_words_of_a_private_dialect_are_not_in_the_management_ui() -> None:
    files = [path for path in WEBUI.rglob("*") if path.suffix in {".js", ".css", ".html"}]
    assert files
    found = [
        f"{path.relative_to(WEBUI)}:{number}: {line.strip()}"
        for path in files
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if WORDS.search(line)
    ]
    assert found == []


def test_the_words_are_found_where_they_are() -> None:
    assert WORDS.search("Nobody takes messages from this queue.")
    assert not WORDS.search("No consumers.")
