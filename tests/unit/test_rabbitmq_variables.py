"""The variables of RabbitMQ's container image that are accepted."""

from __future__ import annotations

from pathlib import Path

import pytest

from leveret.config_sources import load_with_sources


@pytest.mark.parametrize(
    ("name", "variable", "ours"),
    [
        ("default_user", "RABBITMQ_DEFAULT_USER", "LEVERET_DEFAULT_USER"),
        ("default_password", "RABBITMQ_DEFAULT_PASS", "LEVERET_DEFAULT_PASSWORD"),
        ("default_vhost", "RABBITMQ_DEFAULT_VHOST", "LEVERET_DEFAULT_VHOST"),
    ],
)
def test_variables_of_rabbitmq_set_the_first_login_unless_ours_do(
    tmp_path: Path, name: str, variable: str, ours: str
) -> None:
    path = tmp_path / "leveret.toml"
    path.write_text(f'{name} = "file"\n')

    def loaded(environ: dict[str, str]) -> tuple[object, str]:
        found = load_with_sources(path, environ, {})
        return getattr(found.settings, name), found.sources[name]

    assert loaded({variable: "theirs"}) == ("theirs", variable)
    assert loaded({variable: "theirs", ours: "own"}) == ("own", ours)
    assert loaded({variable: "", ours: ""}) == ("file", str(path))
