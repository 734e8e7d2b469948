"""Every ``leveret`` command in the guides is one that the command line understands: its name, options and arguments.
Their TOML files are accepted as settings."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from leveret.config_sources import load_with_sources
from leveret.errors import ConfigError
from tests.support.guide_pages import PAGES, ROOT, blocks, command_lines, leveret_commands, problem_of

DOCUMENTS = {**PAGES, "README": ROOT / "README.md", "benchmarks": ROOT / "docs" / "benchmarks.md"}

ENVIRON = {"security": {"LEVERET_CLUSTER_PASSWORD": "secret"}}  # that a file of the page leaves to it


@pytest.mark.parametrize("page", DOCUMENTS)
def test_the_commands_of_a_page_are_understood(page: str) -> None:
    for line in command_lines(DOCUMENTS[page]):
        for arguments in leveret_commands(line):
            assert problem_of(arguments) is None, f"{line}: {problem_of(arguments)}"


def test_a_command_that_does_not_exist_is_noticed() -> None:
    for line in ("leveret queue list", "leveret queues list --nmae x", "leveret publish a b c", "leveret redrive"):
        (arguments,) = leveret_commands(line)
        assert problem_of(arguments) is not None, line
    assert [*leveret_commands("cat x | leveret publish orders && /opt/bin/leveret ping # leveret no")] == [
        ["publish", "orders"],
        ["ping"],
    ]


@pytest.mark.parametrize("page", PAGES)
def test_the_yaml_of_a_page_is_yaml(page: str) -> None:
    for block in blocks(PAGES[page], "yaml"):
        assert all(document is not None for document in yaml.safe_load_all(block.text))


def settings_in(text: str, folder: Path, environ: dict[str, str] | None = None) -> set[str]:
    """The names of the settings that the file sets."""
    (folder / "leveret.toml").write_text(text)
    loaded = load_with_sources(folder / "leveret.toml", environ or {}, {})
    assert loaded.notices == ()  # about old names
    given = {name for name, source in loaded.sources.items() if source != "default"}
    return given | ({"bootstrap"} if loaded.settings.bootstrap.users else set())


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(PAGES[page], "toml")])
def test_the_toml_of_a_page_is_accepted_as_settings(page: str, tmp_path: Path) -> None:
    for block in blocks(PAGES[page], "toml"):
        assert settings_in(block.text, tmp_path, ENVIRON.get(page))


def test_a_setting_that_does_not_exist_is_noticed(tmp_path: Path) -> None:
    assert settings_in('[store]\ndurability = "os"\n', tmp_path) == {"durability"}
    for text in ('durabilty = "os"', '[store]\nhost = "::1"', 'durability = "disk"'):
        with pytest.raises(ConfigError):
            settings_in(text, tmp_path)
