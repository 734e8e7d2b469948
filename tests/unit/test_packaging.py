"""The unit file and the container file: what they claim, checked against the program that they run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from leveret.cli.main import app
from leveret.cli.serve import MOST_FILES
from leveret.config import DECLARED, Settings
from tests.support.container_file import instructions, last_stage
from tools import lock_image

PACKAGING = Path(__file__).parents[2] / "packaging"
UNIT = PACKAGING / "systemd" / "leveret.service"
VARIABLES = {declared.env for declared in DECLARED}


def unit() -> dict[str, dict[str, list[str]]]:
    """Section, name, values: a name may come more than once."""
    found: dict[str, dict[str, list[str]]] = {}
    for line in UNIT.read_text().splitlines():
        if line.startswith("["):
            section = found.setdefault(line.strip("[]"), {})
        elif line and not line.startswith("#"):
            name, _, value = line.partition("=")
            section.setdefault(name, []).append(value)
    return found


def seconds(text: str) -> float:
    return float("inf") if text == "infinity" else float(text)


# ---- systemd


def test_the_service_runs_a_command_that_exists_and_says_when_it_is_ready() -> None:
    service = unit()["Service"]
    assert service["Type"] == ["notify"]
    assert service["NotifyAccess"] == ["main"]
    command = service["ExecStart"][0].split()
    assert Path(command[0]).is_absolute()
    assert Path(command[0]).name == "leveret"
    assert CliRunner().invoke(app, [command[1], "--help"]).exit_code == 0
    offered = CliRunner(env={"COLUMNS": "200"}).invoke(app, [command[1], "--help"]).output
    assert all(word in offered for word in command if word.startswith("--"))


def test_the_service_reloads_by_sighup() -> None:
    assert unit()["Service"]["ExecReload"] == ["/bin/kill -HUP $MAINPID"]


def test_the_service_keeps_its_data_where_it_may_write() -> None:
    service = unit()["Service"]
    name, _, value = service["Environment"][0].partition("=")
    assert name in VARIABLES
    assert value == f"%S/{service['StateDirectory'][0]}"
    assert service["StateDirectoryMode"] == ["0700"]
    assert service["ProtectSystem"] == ["strict"]
    assert service["User"] != ["root"]


def test_the_service_has_the_files_and_the_time_that_the_broker_takes() -> None:
    service = unit()["Service"]
    assert int(service["LimitNOFILE"][0]) == MOST_FILES
    assert seconds(service["TimeoutStopSec"][0]) > Settings().shutdown_timeout
    assert seconds(service["TimeoutStartSec"][0]) == float("inf")
    assert service["RestartPreventExitStatus"] == ["2"]
    assert seconds(service["WatchdogSec"][0]) > 0


def test_the_service_is_given_no_more_than_it_needs() -> None:
    service = unit()["Service"]
    assert service["CapabilityBoundingSet"] == service["AmbientCapabilities"] == [""]
    assert service["RestrictAddressFamilies"] == ["AF_INET AF_INET6 AF_UNIX"]
    assert service["SystemCallFilter"] == ["@system-service", "~@privileged"]
    for name in ("NoNewPrivileges", "ProtectHome", "PrivateTmp", "PrivateDevices", "MemoryDenyWriteExecute"):
        assert service[name] == ["yes"], name


# ---- container


def test_the_image_comes_from_plain_names_and_takes_only_what_is_installed() -> None:
    (base,) = [rest for word, rest in instructions() if word == "ARG"]
    assert re.fullmatch(r"BASE=python:3\.\d+\.\d+-slim-[a-z]+", base), "one release of each, and no registry"
    assert {rest.split()[0] for word, rest in instructions() if word == "FROM"} == {"${BASE}"}
    assert "ADD" not in dict(instructions())
    copied = [rest for word, rest in last_stage() if word == "COPY"]
    assert copied == ["--from=build /opt/leveret /opt/leveret"]
    needed = [rest.split()[:-1] for word, rest in instructions() if word == "COPY" and "--from" not in rest]
    names = {name for given in needed for name in given}
    assert all((PACKAGING.parent / name).exists() for name in names)
    for command in [each for word, rest in instructions() if word == "RUN" for each in rest.split("&&")]:
        if "pip install" in command or "pip wheel" in command:
            assert "--no-cache-dir" in command
            assert "--require-hashes" in command or "--no-index" in command, f"not pinned: {command}"


def test_the_lock_files_satisfy_the_project_and_pin_every_package_by_hash() -> None:
    """CWE-494, download of code without integrity check: what is built later is what was locked."""
    assert lock_image.faults() == []
    for lock in lock_image.locks():
        text = lock.file.read_text()
        assert "://" not in text, "no index is named"
        for pin, hashes in lock_image.pins_of(text).items():
            assert pin.version, pin
            assert hashes, pin
            assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", each) for each in hashes), pin


def test_a_lock_file_that_is_behind_the_project_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project, *_ = lock_image.locks()
    behind = tmp_path / "requirements.lock"
    behind.write_text(re.sub(r"^h11==.*", "h11==0.1", project.file.read_text(), flags=re.MULTILINE))
    monkeypatch.setattr(lock_image, "locks", lambda: [project._replace(file=behind)])
    assert lock_image.faults() == ["requirements.lock has h11 0.1: h11>=0.16 is wanted"]


def test_nothing_but_what_is_copied_is_sent_to_the_build() -> None:
    listed = [line for line in (PACKAGING.parent / ".dockerignore").read_text().splitlines() if line[:1] != "#"]
    copied = [rest.split()[:-1] for word, rest in instructions() if word == "COPY" and "--from" not in rest]
    assert listed[0] == "*"
    assert {line[1:] for line in listed if line[:1] == "!"} == {name for names in copied for name in names}
    assert listed[-1] == "**/__pycache__", "after the exceptions, or those would bring it back"


def test_the_container_is_not_root_and_keeps_its_data_in_a_volume() -> None:
    found = dict(last_stage())
    user, _, group = found["USER"].partition(":")
    assert int(user) > 0
    assert int(group) > 0
    assert f"--uid {user}" in found["RUN"]
    given = dict(pair.partition("=")[::2] for pair in found["ENV"].split())
    assert given["LEVERET_DATA_DIR"] == found["VOLUME"]
    assert f"install -d -o leveret -g leveret -m 0700 {found['VOLUME']}" in found["RUN"]
    assert {name for name in given if name.startswith("LEVERET_")} <= VARIABLES
    order = [word for word, _ in last_stage()]
    assert order.index("RUN") < order.index("USER"), "after it, nothing could be set up"


def test_the_container_shows_the_ports_of_the_broker_and_stops_by_its_signal() -> None:
    found, settings = dict(last_stage()), Settings()
    assert {int(port) for port in found["EXPOSE"].split()} == {
        settings.amqp_port,
        settings.amqps_port,
        settings.http_port,
        settings.https_port,
        settings.cluster_port,
    }
    assert found["STOPSIGNAL"] == "SIGTERM"
    command = json.loads(found["ENTRYPOINT"]) + json.loads(found["CMD"])
    assert command == ["leveret", "serve"]


def test_the_health_check_is_bounded_and_asks_the_http_port() -> None:
    options, _, command = dict(last_stage())["HEALTHCHECK"].partition("CMD ")
    given = dict(option.partition("=")[::2] for option in options.split())
    assert given.keys() == {"--interval", "--timeout", "--start-period", "--retries"}
    program, flag, code = json.loads(command)
    assert (program, flag) == ("python", "-c")
    own_limit = re.search(r"timeout=(\d+)", code)
    assert own_limit is not None
    assert int(own_limit[1]) < int(given["--timeout"].rstrip("s"))
    assert f"'127.0.0.1', int(os.environ.get('LEVERET_HTTP_PORT') or {Settings().http_port})" in code
    assert "LEVERET_HTTP_PORT" in VARIABLES
