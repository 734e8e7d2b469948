"""The documents as a whole: links lead somewhere, the version is the same everywhere, the README keeps its order."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from leveret.version import VERSION

REPOSITORY = Path(__file__).resolve().parent.parent
PAGES = [*sorted(REPOSITORY.glob("*.md")), *sorted((REPOSITORY / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\(([^()\s]+)\)")
# The questions of a new reader, in this order.
README = ["Install", "Celery", "Tests: a broker in your process", "How it compares", "Speed", "Limits", "Spark"]


def prose(page: Path) -> str:
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", lambda code: code[0].strip("`").replace("](", "] ("), text)


def anchors(page: Path) -> set[str]:
    """As forges derive them from headings."""
    found: set[str] = set()
    for title in re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE):
        text = re.sub(r"\]\s?\([^)]*\)|\[", "", title)
        found.add(re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), target
        if anchor and found.suffix == ".md":
            assert anchor in anchors(found), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_no_heading_is_there_twice(page: Path) -> None:
    titles = re.findall(r"^#+ .*$", prose(page), re.MULTILINE)
    assert len(titles) == len(set(titles)) or page.name == "CHANGELOG.md"  # its versions have the same parts


def test_the_tests_of_the_management_ui_exist() -> None:
    page = (REPOSITORY / "docs/internals/management-ui.md").read_text(encoding="utf-8")
    known = {
        (path.name, test)
        for path in (REPOSITORY / "tests").rglob("test_*.py")
        for test in re.findall(r"^(?:async )?def (test_\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    rows = [line for line in page.splitlines() if line.startswith("| ")][1:]
    for row in rows:
        named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", row)
        assert named, row
        assert set(named) <= known, row


def test_the_version_is_the_same_everywhere() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    released = re.findall(r"^## \[(\d+\.\d+\.\d+)\]", (REPOSITORY / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    banner = re.search(
        r"^Leveret (\S+) is ready", (REPOSITORY / "docs/guide/install.md").read_text("utf-8"), re.MULTILINE
    )
    assert banner is not None
    assert [VERSION, project["version"], banner[1]] == [released[0]] * 3


def test_the_upgrade_section_has_a_row_for_every_version() -> None:
    section = (REPOSITORY / "docs/guide/operate.md").read_text("utf-8").split("\n## Upgrade\n")[1].split("\n## ")[0]
    for version in re.findall(
        r"^## \[(\d+\.\d+\.\d+)\]", (REPOSITORY / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE
    ):
        assert f"\n| {version}" in section


def test_the_readme_answers_in_order() -> None:
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    titles = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert [title for title in titles if title in README] == README
    introduction = text.split("\n## ")[0]
    assert introduction.index("**Leveret is for you if**") < introduction.index("![")
    assert "no release on PyPI" in text
    assert re.search(r"\bmake test\b", (REPOSITORY / ".ci/run").read_text(encoding="utf-8"))
    assert "`make test`" in text
