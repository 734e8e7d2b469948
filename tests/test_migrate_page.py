"""docs/guide/migrate.md names commands, settings and HTTP requests of Leveret: they exist."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from leveret.api.openapi.document import DESCRIBED
from leveret.cli.lazy_commands import LazyCommand
from leveret.cli.main import app
from leveret.cli.rabbitmq_commands import COUNTERPARTS, NO_COUNTERPART, REMARKS
from leveret.cli.rabbitmq_commands import NOT_NEEDED as NOT_NEEDED_REMARK
from leveret.cli.rabbitmq_conf import NOT_NEEDED, NOT_SUPPORTED, RULES, rule_of, translated
from leveret.config import BY_NAME
from leveret.errors import ConfigError
from leveret.stats.metric_help import HELP

PAGE = (Path(__file__).parent.parent / "docs" / "guide" / "migrate.md").read_text(encoding="utf-8")


def counterparts(text: str) -> list[str]:
    """The code in the right column of all tables."""
    rows = [line.strip("|").partition(" | ")[2] for line in text.splitlines() if line.startswith("| ")]
    return [code for row in rows for code in re.findall(r"`([^`]+)`", row)]


# ---- commands


def wrong_command(line: str) -> str | None:
    """The first word that is no command or option, if there is one."""
    command: Any = get_command(app)
    for word in line.split()[1:]:
        if isinstance(command, LazyCommand):
            command = command.load()
        if word.startswith("-"):
            flags = {"--help", *(flag for parameter in command.params for flag in parameter.opts)}
            if word not in flags:
                return word
        elif getattr(command, "commands", None) is not None:
            if word not in command.commands:
                return word
            command = command.commands[word]
    return None


COMMANDS = [code for code in counterparts(PAGE) if code.startswith("leveret ")]


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_exists(line: str) -> None:
    assert wrong_command(line) is None


def test_a_wrong_command_is_found() -> None:
    assert len(COMMANDS) > 50
    assert wrong_command("leveret queues lst") == "lst"
    assert wrong_command("leveret queues list --sorted") == "--sorted"
    assert wrong_command("leveret queues list --sort name") is None


def commands_of(section: str) -> list[str]:
    part = PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    cells = [line.strip("|").partition(" | ")[0] for line in part.splitlines() if line.startswith("| `")]
    return [code.split()[0] for cell in cells for code in re.findall(r"`([^`]+)`", cell)]


@pytest.mark.parametrize("name", sorted({*commands_of("rabbitmqctl"), *commands_of("rabbitmq-diagnostics")}))
def test_a_command_of_rabbitmqctl_is_answered(name: str) -> None:
    """Typed to `leveret`, it is a command of it, or the error has the counterpart or the reason."""
    known: Any = get_command(app)
    assert (name in known.commands) + (name in COUNTERPARTS) + (name in REMARKS) == 1
    if name in REMARKS:
        assert f"No such command '{name}': {REMARKS[name]}." in CliRunner().invoke(app, [name]).output


def named_in(right: str) -> set[str]:
    """The commands of leveret and the paths of the HTTP API in a cell, without their arguments."""
    found, group = set(), ""
    for code in re.findall(r"`([^`]+)`", right):
        if code.startswith("leveret "):
            found.add(plain_command(code))
            group = " ".join(code.split()[:2])
        elif re.fullmatch(r"[a-z-]+", code):  # another command of the same group
            found.add(f"{group} {code}")
        elif "/api/" in code:
            found.add(plain_path(code))
    return found


def plain_command(line: str) -> str:
    words = [word for word in line.split() if word.islower() and not word.startswith("--")]
    return " ".join([*words, "--no-password"] if "--no-password" in line else words)


def plain_path(text: str) -> str:
    """Parameters are {name} in the guide and NAME in errors."""
    return re.sub(r"\{\w+\}|\b[A-Z]{2,}\b|\.\.\.", "*", text[text.index("/api/") :])


COMMAND_ROWS = {
    command: right
    for section in ("rabbitmqctl", "rabbitmq-diagnostics")
    for line in PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0].splitlines()
    if line.startswith("| `")
    for left, _, right in [line.strip("|").partition(" | ")]
    for command in [code.split()[0] for code in re.findall(r"`([^`]+)`", left)]
}


@pytest.mark.parametrize("name", sorted(COUNTERPARTS.keys() & COMMAND_ROWS.keys()))
def test_the_error_of_a_command_of_rabbitmqctl_has_the_counterpart_of_the_table(name: str) -> None:
    counterpart = plain_command(f"leveret {COUNTERPARTS[name]}")
    assert counterpart in named_in(COMMAND_ROWS[name])


@pytest.mark.parametrize("name", sorted(REMARKS.keys() & COMMAND_ROWS.keys()))
def test_the_error_of_a_command_without_a_counterpart_has_the_reason_of_the_table(name: str) -> None:
    remark, row = REMARKS[name], COMMAND_ROWS[name].strip()
    assert (remark == NOT_NEEDED_REMARK) == row.startswith(NOT_NEEDED)
    assert remark != NO_COUNTERPART or row.startswith(NOT_SUPPORTED)
    if found := re.search(r"/api/\S*[A-Za-z]", remark):
        assert any(each.startswith(plain_path(found[0])) for each in named_in(row))


def test_most_commands_of_the_errors_are_in_the_table() -> None:
    assert len(COUNTERPARTS.keys() - COMMAND_ROWS.keys()) <= 3
    assert REMARKS.keys() <= COMMAND_ROWS.keys()


# ---- settings


def settings_in(section: str) -> Iterator[str]:
    for code in counterparts(PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0]):
        if found := re.fullmatch(r"([a-z_]+)(?: = .+)?", code):
            yield found[1]


OTHERS = {"max_queues", "max_connections", "login", "passcode"}  # of [[bootstrap.vhosts]]; headers of STOMP
SETTINGS = sorted({*settings_in("rabbitmq.conf")} - OTHERS)
VALUES = sorted({code for code in counterparts(PAGE) if re.fullmatch(r"[a-z_]+ = .+", code)})


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_exists(name: str) -> None:
    assert name in BY_NAME


def is_accepted(line: str) -> bool:
    ((name, value),) = tomllib.loads(line).items()
    try:
        BY_NAME[name].kind.parse(value)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("line", VALUES)
def test_a_value_is_accepted(line: str) -> None:
    assert is_accepted(line)


def test_a_wrong_value_is_found() -> None:
    assert len(SETTINGS) > 20
    assert len(VALUES) > 5
    assert not is_accepted('memory_high_watermark = "much"')


# ---- HTTP requests


def requests_in(text: str) -> Iterator[str]:
    """Such as "GET /api/nodes/{name}"; without a method it is GET."""
    for code in counterparts(text):
        if found := re.fullmatch(r"(?:([A-Z]+) )?(/api/\S+)", code):
            yield f"{found[1] or 'GET'} {found[2]}"


def is_answered(request: str) -> bool:
    """Whether the API has it. A segment with a parameter fits any other, and `...` any rest."""
    begin, *rest = request.split("...")
    wanted = begin.rstrip("/").split("/")
    for known in DESCRIBED:
        there = known.split("/")
        fits = len(there) > len(wanted) if rest else len(there) == len(wanted)
        if fits and all(a == b or "{" in a + b for a, b in zip(there, wanted, strict=False)):
            return True
    return False


REQUESTS = sorted(set(requests_in(PAGE)))


@pytest.mark.parametrize("request_", REQUESTS)
def test_a_request_is_answered(request_: str) -> None:
    assert is_answered(request_)


def test_a_wrong_request_is_found() -> None:
    assert len(REQUESTS) > 20
    assert is_answered("GET /api/nodes/{name}/memory")
    assert not is_answered("GET /api/nodes/{name}/memories")
    assert not is_answered("DELETE /api/overview")
    assert not is_answered("PUT /api/vhost-limit/...")


# ---- metrics


METRICS = PAGE.split("\n## Metrics\n")[1].split("\n## ")[0]
METRIC = re.compile(r"`(?:rabbitmq|leveret)_(?!detailed_|prometheus)([a-z_]+\*?)`")


def test_metrics_that_are_listed_as_missing_do_not_exist_and_those_in_their_place_do() -> None:
    rows = [line.strip("|").partition(" | ") for line in METRICS.splitlines() if line.startswith("| ")]
    missing = [name for left, _, _ in rows for name in METRIC.findall(left.partition(" except ")[0])]
    missing += METRIC.findall(METRICS.partition("seconds`; ")[2].partition(" | ")[0])
    assert len(missing) > 10
    assert [name for name in HELP for each in missing if fnmatchcase(name, each)] == ["erlang_uptime_seconds"]
    instead = [name for _, _, right in rows for name in METRIC.findall(right)]
    assert instead
    assert {*instead} <= {*HELP}


# ---- leveret config import


def keys_in(cell: str) -> list[str]:
    """The keys of rabbitmq.conf in a cell of the left column, with samples for their wildcards."""
    codes = [code.partition(" = ")[0] for code in re.findall(r"`([^`]+)`", cell)]
    return [re.sub(r"\*$|\bN\b|\bK\b|\bNAME\b", "1", code) for code in codes]


CONF = PAGE.split("\n## rabbitmq.conf\n")[1].split("\n### ")[0]
ROWS = [line.strip("|").partition(" | ") for line in CONF.splitlines() if line.startswith("| `")]
KEYS = [(key, right) for left, _, right in ROWS for key in keys_in(left)]
VALUES_OF = {"default_pass": "x", "proxy_protocol": "true", "stomp.proxy_protocol": "true", "loopback_users": "none"}
SAMPLES = ("5672", "2GB", "0.5", "json", "true", "info", "client-local", "/etc/file.pem")


def settings_of(key: str) -> set[str]:
    """The settings that the import makes of the key, with the first sample that it accepts."""
    given = [VALUES_OF[key]] if key in VALUES_OF else SAMPLES
    for value in given:
        if found := {*translated(f"{key} = {value}", "rabbitmq.conf").settings} - {"host"}:
            return found
    return set()


@pytest.mark.parametrize(("key", "right"), KEYS)
def test_the_import_agrees_with_the_table(key: str, right: str) -> None:
    rule = rule_of(key)
    assert rule is not None
    named = {code.partition(" = ")[0] for code in re.findall(r"`([^`]+)`", right)}
    if right.startswith("the same name"):
        named = {key}
    if isinstance(rule.translate, str):
        for answer in (NOT_NEEDED, NOT_SUPPORTED):
            assert rule.translate.startswith(answer) == right.startswith(answer)
    else:
        assert settings_of(key) <= named
        assert settings_of(key)


def test_every_rule_is_in_the_table() -> None:
    assert len(KEYS) > 150
    there = {id(rule_of(key)) for key, _ in KEYS}
    assert [rule.keys for rule in RULES if id(rule) not in there] == []


def test_rabbitmq_conf_becomes_a_file_that_is_accepted(tmp_path: Path) -> None:
    conf, toml = tmp_path / "rabbitmq.conf", tmp_path / "leveret.toml"
    conf.write_text(CONFIGURED)
    result = CliRunner().invoke(app, ["config", "import", str(conf), "--output", str(toml)])
    assert result.exit_code == 0, result.output
    loaded = tomllib.loads(toml.read_text())
    assert loaded == {
        "amqp_port": 5673,
        "host": ["*"],
        "amqps_port": 5671,
        "handshake_timeout": 20.0,
        "default_user": "admin",
        "default_password": "pa#ss",
        "loopback_users": "none",
        "connection_max": "unlimited",
        "memory_high_watermark": "60%",
        "log_level": "error",
        "queue_leader_locator": "balanced",
    }
    assert CliRunner().invoke(app, ["config", "check", "--config", str(toml)]).exit_code == 0
    assert toml.stat().st_mode & 0o777 == 0o600
    comments = [line for line in toml.read_text().splitlines() if line.startswith("# ")]
    assert "# stomp.default_pass = ***: not supported: send login and passcode" in comments
    assert "# no_such.key = 1: unknown key (line 9)" in comments
    assert not [line for line in comments if "locator" in line]
    again = CliRunner().invoke(app, ["config", "import", str(conf), "--output", str(toml)])
    assert isinstance(again.exception, ConfigError)  # an existing file is kept


CONFIGURED = """\
# a comment
listeners.tcp.1 = 10.0.0.1:5673
listeners.ssl.default = 5671
handshake_timeout = 20000
default_user = admin
default_pass = 'pa#ss'
loopback_users.guest = false
stomp.default_pass = hunter2
no_such.key = 1
connection_max = infinity   # of this node
vm_memory_high_watermark.relative = 0.6
log.console.level = critical
queue_master_locator = min-masters
"""


@pytest.mark.parametrize(
    ("value", "setting"),
    [("min-masters", "balanced"), ("random", "balanced"), ("balanced", "balanced"), ("client-local", "client-local")],
)
@pytest.mark.parametrize("key", ["queue_leader_locator", "queue_master_locator"])
def test_old_names_of_locators_become_new_ones(key: str, value: str, setting: str) -> None:
    assert translated(f"{key} = {value}", "rabbitmq.conf").settings == {"queue_leader_locator": setting}


def test_an_unknown_locator_becomes_a_comment() -> None:
    result = translated("queue_master_locator = nearest", "rabbitmq.conf")
    assert result.settings == {}
    assert any(remark.startswith("queue_master_locator = nearest: ") for remark in result.remarks)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("s3cret # don't share", "s3cret"),
        ("don't#share", "don't"),
        ("'pa#ss' # don't share", "pa#ss"),
        ("'two words'#", "two words"),
        ("'s3cret", "'s3cret"),
        ("two words", "two words"),
    ],
)
def test_comments_and_quotes_are_read_as_by_rabbitmq(line: str, value: str) -> None:
    assert translated(f"default_pass = {line} ", "rabbitmq.conf").settings == {"default_password": value}


@pytest.mark.parametrize(
    "text", ["listeners.tcp.1 5672", "[{rabbit, []}].", "default_pass = 'a' b", "default_pass = # none"]
)
def test_another_file_is_refused(tmp_path: Path, text: str) -> None:
    conf = tmp_path / "rabbitmq.conf"
    conf.write_text(text)
    result = CliRunner().invoke(app, ["config", "import", str(conf)])
    assert isinstance(result.exception, ConfigError)
    assert "line 1" in str(result.exception)
    result = CliRunner().invoke(app, ["config", "check", "--config", str(conf)])
    assert "run 'leveret config import'" in str(result.exception)


@pytest.mark.parametrize(
    ("line", "remark"),
    [
        ("some.password = hunter2", "some.password = ***: unknown key (line 1)"),
        ("some.Client_Secret = hunter2", "some.Client_Secret = ***: unknown key (line 1)"),
        ("some.url = amqp://u:hunter2@h/", "some.url = amqp://u:***@h/: unknown key (line 1)"),
        ("some.url = amqp://u:hunter2@h:5672", "some.url = amqp://u:***@h:5672: unknown key (line 1)"),
        ("some.url = http://h:15672/a@b", "some.url = http://h:***@b: unknown key (line 1)"),  # rather too much
        ("some.url = http://h/a", "some.url = http://h/a: unknown key (line 1)"),
        ("auth_http.user_path = http://u:hunter2@h/", f"auth_http.user_path = http://u:***@h/: {NOT_SUPPORTED}"),
        ("auth_ldap.dn_lookup_bind.password = hunter2", f"auth_ldap.dn_lookup_bind.password = ***: {NOT_SUPPORTED}"),
        ("cluster_formation.consul.acl_token = hunter2", "cluster_formation.consul.acl_token = ***: "),
    ],
)
def test_passwords_are_not_repeated(line: str, remark: str) -> None:
    (found, _) = translated(line, "rabbitmq.conf").remarks
    assert found.startswith(remark)
    assert "hunter2" not in found


def test_the_error_of_a_line_that_is_not_understood_has_no_password() -> None:
    with pytest.raises(ConfigError, match=r"line 1: 'default_pass =\*\*\*' is not 'key = value'"):
        translated("default_pass = 'hunter2' b", "rabbitmq.conf")


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    conf = tmp_path / "rabbitmq.conf"
    conf.write_text("default_user = admin\n", encoding="utf-8-sig")
    output = CliRunner().invoke(app, ["config", "import", str(conf)]).output
    assert 'default_user = "admin"' in output
    assert "unknown key" not in output
