"""The Compose file: what it claims, checked against the container file and the broker."""

from __future__ import annotations

import re
from typing import Any

import yaml  # type: ignore[import-untyped]
from typer.testing import CliRunner

from leveret.cli.main import app
from leveret.config import DECLARED, Settings
from leveret.version import VERSION
from tests.support.monitoring_files import PACKAGING

TEXT = (PACKAGING / "compose.yaml").read_text(encoding="utf-8")
CONTAINER = (PACKAGING / "container" / "Containerfile").read_text(encoding="utf-8")
FILE: dict[str, Any] = yaml.safe_load(TEXT)
BROKER: dict[str, Any] = FILE["services"]["leveret"]


def test_the_image_is_built_from_the_container_file_of_this_version() -> None:
    context = (PACKAGING / BROKER["build"]["context"]).resolve()
    assert (context / BROKER["build"]["dockerfile"]).samefile(PACKAGING / "container" / "Containerfile")
    assert BROKER["image"] == f"leveret:{VERSION}"


def test_every_variable_is_a_setting_and_there_is_no_default_password() -> None:
    assert set(BROKER["environment"]) <= {declared.env for declared in DECLARED}
    assert ":?" in BROKER["environment"]["LEVERET_DEFAULT_PASSWORD"]


def test_ports_of_this_machine_lead_to_the_ports_of_the_broker() -> None:
    settings = Settings()
    exposed = re.search(r"^EXPOSE (.*)$", CONTAINER, re.MULTILINE)
    assert exposed is not None
    for port, text in zip((settings.amqp_port, settings.http_port), BROKER["ports"], strict=True):
        assert text == f"127.0.0.1:{port}:{port}"
        assert str(port) in exposed[1].split()


def test_the_data_is_in_a_named_volume() -> None:
    ((name, _, target),) = (each.partition(":") for each in BROKER["volumes"])
    assert name in FILE["volumes"]
    assert f"VOLUME {target}\n" in CONTAINER


def test_the_health_check_is_a_command_of_the_image_that_ends_in_time() -> None:
    kind, program, *arguments = BROKER["healthcheck"]["test"]
    assert (kind, program, arguments[0]) == ("CMD", "leveret", "wait")  # asks /health/ready, as Kubernetes does
    answer = CliRunner().invoke(app, [*arguments[:1], "--help"])
    assert answer.exit_code == 0
    assert arguments[1] in answer.output
    assert float(arguments[2]) < seconds(BROKER["healthcheck"]["timeout"])


def test_the_broker_has_time_to_stop() -> None:
    assert seconds(BROKER["stop_grace_period"]) > Settings().shutdown_timeout


def seconds(text: str) -> float:
    return float(text.removesuffix("s"))
