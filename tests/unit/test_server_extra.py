"""What works without the packages of the extra `server`, and what names them. tests/environments has the real thing."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer

import leveret.__main__ as command
from leveret.config import Settings
from leveret.errors import ConfigError
from leveret.http import server
from leveret.node import Node
from tools import lowest_versions

ROOT = Path(__file__).parents[2]
SERVER = {"h11", "rich", "starlette", "typer", "uvicorn", "websockets"}
EMBEDDED = """
import sys
import leveret, leveret.pytest_plugin, leveret.client, leveret.client.blocking, leveret.client.jms
with leveret.Broker() as broker, leveret.client.blocking.connect(broker.amqp_url) as connection:
    channel = connection.channel()
    channel.declare_queue("q")
    channel.confirm_select()
    channel.publish(b"x", routing_key="q")
    assert broker.vhost().get("q").body == b"x"
print(sorted({name.partition(".")[0] for name in sys.modules}))
"""


def project() -> dict[str, dict[str, list[str]]]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]  # type: ignore[no-any-return]


def imported_by(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": str(ROOT / "src")}
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.strip("[]\n").replace("'", "").split(", "))


def test_an_embedded_broker_and_the_client_import_no_package_of_the_server() -> None:
    imported = imported_by(EMBEDDED)
    assert "leveret" in imported
    assert imported & (SERVER | {"anyio", "click", "nats", "numpy", "pyarrow"}) == set()


def test_the_extra_is_what_the_http_ports_and_the_command_line_import() -> None:
    names = [each.partition(">=")[0] for each in project()["optional-dependencies"]["server"]]
    assert {*names} == SERVER
    assert {*server.PACKAGES, "rich", "typer"} == SERVER


def test_the_lowest_versions_are_those_of_the_broker_and_of_its_extras() -> None:
    found = lowest_versions.constraints(project())
    names = {each.partition("==")[0] for each in found if each != lowest_versions.CLICK}
    assert names == {"apsw", "argon2-cffi", "msgspec", "regex", "uvloop", "xxhash", *SERVER, "pyjwt"} | {
        "numpy",
        "pyarrow",
        "nats-py",
    }
    assert "h11==0.16" in found


def test_a_bound_that_excludes_newer_versions_has_a_reason() -> None:
    """Users install these beside other packages. Those of tests and development are ours alone."""
    text = (ROOT / "pyproject.toml").read_text()
    lines = text.partition("\ndependencies = [")[2].partition("\ntest = [")[0].splitlines()
    bounded = [line for line in lines if re.match(r'    "[^"]*(<|!=|==|~=)\d', line)]
    assert [line for line in bounded if "  # " not in line] == []
    decision = (ROOT / "docs" / "decisions" / "0086-dependencies-that-bend.md").read_text()
    for line in bounded:
        (name,) = re.findall(r'^    "([a-z0-9-]+)', line)
        assert f"| {name} (extra " in decision.partition("| Excluded |")[2], line


def test_a_requirement_without_a_lower_bound_is_refused() -> None:
    with pytest.raises(ValueError, match="no lower bound for h11: h11<1"):
        lowest_versions.constraints({"dependencies": ["h11<1"], "optional-dependencies": {"server": []}})


@pytest.mark.parametrize(
    "settings",
    [Settings(), Settings(http_port=0), Settings(http_port=None, tls_cert=Path("c.pem"), tls_key=Path("k.pem"))],
)
def test_a_node_with_an_http_port_names_what_is_missing(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "starlette", None)
    with pytest.raises(ConfigError) as refused:
        Node(settings)
    assert str(refused.value) == (
        "the HTTP ports need starlette: pip install 'leveret[server]', or turn them off with http_port=None and "
        "https_port=None (--http-port off --https-port off)"
    )
    Node(Settings(http_port=None))


def test_the_command_names_what_is_missing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delitem(sys.modules, "leveret.cli.main", raising=False)
    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == "leveret: the command line needs typer: pip install 'leveret[server]'\n"


@pytest.mark.parametrize(
    ("of_typer", "of_click", "fault"),
    [
        ("0.12.5", "8.1.8", ""),
        ("0.12.5", "8.2.0", "leveret: typer 0.12.5 does not work with click 8.2.0: pip install 'click<8.2'\n"),
        ("0.15.3", "8.10", "leveret: typer 0.15.3 does not work with click 8.10: pip install 'click<8.2'\n"),
        ("0.15.4", "8.2.0", ""),
        ("0.29.1", "9.0", ""),
    ],
)
def test_a_typer_that_fails_with_the_installed_click_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], of_typer: str, of_click: str, fault: str
) -> None:
    started: list[bool] = []
    monkeypatch.setattr(typer, "__version__", of_typer)
    monkeypatch.setattr("importlib.metadata.version", {"click": of_click}.__getitem__)
    monkeypatch.setattr("leveret.cli.main.main", lambda: started.append(True))
    if fault:
        with pytest.raises(SystemExit):
            command.main()
    else:
        command.main()
    assert capsys.readouterr().err == fault
    assert bool(started) == (not fault)
