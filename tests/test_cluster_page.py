"""docs/guide/cluster.md names commands, settings, files and error messages: they exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from leveret.config_sources import load_settings
from leveret.stats.metric_help import HELP
from tests.test_migrate_page import wrong_command

ROOT = Path(__file__).parent.parent
GUIDE = ROOT / "docs" / "guide"
PAGE = (GUIDE / "cluster.md").read_text(encoding="utf-8")
SECURITY = (GUIDE / "security.md").read_text(encoding="utf-8")
SOURCE = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "src" / "leveret").rglob("*.py")))
INTERNALS = (ROOT / "docs" / "internals" / "replicate.md").read_text(encoding="utf-8")
MATRIX = INTERNALS.split("\n### Failures and their tests\n")[1]
TEXTS = re.sub(r'"\s*\n\s*f?"', "", SOURCE)  # long messages are several literals

FOUND = set(re.findall(r"(?:`|[$#] )(leveret [a-z][^`\n#]*)", PAGE))
COMMANDS = sorted(FOUND)
BLOCKS = [
    block
    for block in re.findall(r"^( *)```toml\n(.*?)^ *```", PAGE + SECURITY, re.MULTILINE | re.DOTALL)
    if "cluster" in block[1]
]
OF_OTHERS = {"'Authorization Violation'", "CERTIFICATE_VERIFY_FAILED"}  # messages of NATS and OpenSSL
ERRORS = [
    code
    for row in PAGE.split("\n## Troubleshooting\n")[1].splitlines()
    if row.startswith("| `")
    for code in re.findall(r"`([^`]+)`", row.split(" | ")[0])
]


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_exists(line: str) -> None:
    assert wrong_command(line.split(" && ")[0]) is None


def test_commands_are_found() -> None:
    assert len(FOUND) > 9
    assert wrong_command("leveret cluster stat") == "stat"


@pytest.mark.parametrize("place", range(len(BLOCKS)))
def test_a_configuration_file_is_valid(place: int, tmp_path: Path) -> None:
    indent, text = BLOCKS[place]
    path = tmp_path / "leveret.toml"
    path.write_text("\n".join(line.removeprefix(indent) for line in text.splitlines()))
    assert "cluster" in tomllib.loads(path.read_text())
    settings = load_settings(path, {"LEVERET_CLUSTER_PASSWORD": "x"}, {})
    assert len(settings.cluster) == 3


@pytest.mark.parametrize("error", ERRORS)
def test_an_error_message_exists(error: str) -> None:
    """Names, numbers and what is left out stand for fields of the message."""
    for part in re.split(r"\.\.\.|'\w'|LEVERET_main|\d+|/varz", error):
        assert part.strip(" ,") in TEXTS or part.strip() in OF_OTHERS, part


def test_metrics_exist() -> None:
    named = set(re.findall(r"leveret_(cluster_\w+)", PAGE))
    assert len(named) > 5
    assert named <= HELP.keys()
    assert all(name in SOURCE for name in re.findall(r"leveret_(standby_\w+)", PAGE))


def test_files_and_sections_exist() -> None:
    for target in re.findall(r"\]\(([^)]+)\)", PAGE):
        file, _, section = target.partition("#")
        if file.startswith("http"):
            continue
        path = (GUIDE / file) if file else GUIDE / "cluster.md"
        assert path.exists(), target
        heads = [re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in headings(path)]
        assert not section or section in heads, target
    for name in re.findall(r"packaging/[\w/.-]+", PAGE):
        assert (ROOT / name).exists(), name


def headings(path: Path) -> list[str]:
    return [line.lstrip("#") for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("#")]


def test_every_failure_of_the_matrix_has_a_test_that_exists() -> None:
    assert [int(number) for number in re.findall(r"^\| (\d+) ", MATRIX, re.MULTILINE)] == list(range(1, 24))
    named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", MATRIX)
    assert len(named) > 20
    missing = [name for file, name in named if f"def {name}(" not in (ROOT / "tests" / "cluster" / file).read_text()]
    assert missing == []
