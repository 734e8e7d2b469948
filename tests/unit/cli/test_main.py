from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from leveret.cli.banner import banner, ready_facts
from leveret.cli.main import app, main
from leveret.config import DECLARED, Settings
from leveret.errors import ConfigError

SRC = str(Path(__file__).parents[3] / "src")
runner = CliRunner(env={"COLUMNS": "200"})


def test_the_version_is_told() -> None:
    result = runner.invoke(app, ["--version"])
    assert result.exit_code == 0
    assert result.output.startswith("leveret ")


def test_serve_offers_a_flag_for_every_setting_but_secrets() -> None:
    text = runner.invoke(app, ["serve", "--help"]).output
    for declared in DECLARED:
        assert (declared.flag or "--config") in text
    assert "--default-password" not in text


def test_config_show_tells_value_and_source_and_hides_secrets(tmp_path: Path) -> None:
    path = tmp_path / "leveret.toml"
    path.write_text(
        'heartbeat = 7\n[[bootstrap.users]]\nname = "ann"\npassword = "hunter2"\n'
        '[[bootstrap.permissions]]\nuser = "ann"\n[[bootstrap.vhosts]]\nname = "shop"\n'
    )
    environ = {"LEVERET_DEFAULT_PASSWORD": "hunter2", "LEVERET_HTTP_PORT": "off"}
    result = runner.invoke(app, ["config", "show", "--config", str(path), "--amqp-port", "0"], env=environ)
    shown = {line.split()[0]: line.split()[1:] for line in result.output.splitlines()}
    assert shown["heartbeat"] == ["7", str(path)]
    assert shown["http_port"] == ["off", "LEVERET_HTTP_PORT"]
    assert shown["amqp_port"] == ["0", "--amqp-port"]
    assert shown["default_password"] == ["***", "LEVERET_DEFAULT_PASSWORD"]
    assert shown["bootstrap.users"][0] == "ann"
    assert "hunter2" not in result.output


def test_config_show_can_be_json() -> None:
    result = runner.invoke(app, ["config", "show", "--json", "--heartbeat", "9"])
    assert json.loads(result.output)["heartbeat"] == {"value": "9", "source": "--heartbeat"}


def test_config_check_approves_sound_settings() -> None:
    result = runner.invoke(app, ["config", "check", "--stomp-port", "off"])
    assert result.exit_code == 0
    assert "valid: 1 given" in result.output


def test_old_flags_are_hidden_and_still_accepted_with_a_notice() -> None:
    assert "--memory-mark" not in runner.invoke(app, ["serve", "--help"]).output
    result = runner.invoke(app, ["config", "check", "--memory-mark", "50%"], env={"LEVERET_DISK_MARK": "1GiB"})
    assert result.exit_code == 0
    assert "Renamed: the setting memory_mark (--memory-mark) is now memory_high_watermark." in result.output
    assert "Renamed: the setting disk_mark (LEVERET_DISK_MARK) is now disk_free_limit." in result.output
    assert "Did you mean" not in result.output
    shown = runner.invoke(app, ["config", "show", "--memory-mark", "50%"]).output
    assert ["memory_high_watermark", "50%", "--memory-mark"] in [line.split() for line in shown.splitlines()]


def test_config_check_names_a_variable_that_is_almost_a_setting() -> None:
    """A container has nothing but variables: one that is mistyped would be lost without a word."""
    environ = {"LEVERET_HEARTBEET": "7", "LEVERET_OF_MY_OWN": "1", "LEVERET_CONFIG": "", "LEVERET_CONTEXT": "x"}
    result = runner.invoke(app, ["config", "check"], env=environ)
    assert result.exit_code == 0
    named = [line for line in result.output.splitlines() if line.startswith("LEVERET_")]
    assert named == ["LEVERET_HEARTBEET is not a setting and has no effect. Did you mean LEVERET_HEARTBEAT?"]


def test_config_check_misses_a_tls_file(tmp_path: Path) -> None:
    result = runner.invoke(app, ["config", "check", "--tls-cert", str(tmp_path / "none.pem")])
    assert isinstance(result.exception, ConfigError)
    assert "no such file" in str(result.exception)


def test_a_wrong_setting_is_one_line_and_exit_code_two(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["leveret", "serve", "--amqp-port", "amqp"])
    with pytest.raises(SystemExit) as ended:
        main()
    shown = capsys.readouterr()
    assert ended.value.code == 2
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    assert shown.err.startswith("leveret: amqp_port = 'amqp' (from --amqp-port) cannot be used")


def test_the_banner_never_shows_a_password_other_than_guests() -> None:
    settings = Settings(default_user="ann b", default_password="hunter2", default_vhost="shop/1")
    shown = banner(settings, {"amqp": "amqp://[::1]:5672"}, "1.0")
    assert "amqp://ann%20b@[::1]:5672/shop%2F1" in shown
    assert "Try it (replace PASSWORD): pip" in shown
    assert 'URLParameters("amqp://ann%20b:PASSWORD@[::1]:5672/shop%2F1")' in shown
    assert "hunter2" not in shown
    assert "in memory only" in shown


def test_the_banner_of_a_standby_shows_its_cell_and_no_example_without_a_user() -> None:
    cell = {"cell": "standby of the cell main, leader n1; clients are relayed to it", "cluster": "10.0.0.2:25672"}
    shown = banner(Settings(data_dir=Path("/d")), {"amqp": "amqp://10.0.0.2:5672"}, "1.0", "", cell=cell)
    assert "  cell     standby of the cell main, leader n1; clients are relayed to it\n" in shown
    assert "  cluster  10.0.0.2:25672\n" in shown
    assert "pika" not in shown
    assert "pika" in banner(Settings(data_dir=Path("/d")), {"amqp": "amqp://10.0.0.2:5672"}, "1.0", "ann", cell=cell)


def test_the_line_for_logs_has_the_listeners_and_what_was_recovered() -> None:
    facts = ready_facts(
        Settings(node_name="n1"), {"amqp": "amqp://h:5672"}, "1.0", {"messages": 7, "state": "clean"}, {"cell": "main"}
    )
    assert facts == {
        "node": "n1",
        "version": "1.0",
        "amqp": "amqp://h:5672",
        "cell": "main",
        "data": "in memory only",
        "recovered_messages": 7,
        "recovered_state": "clean",
    }


def test_the_banner_without_amqp_gives_no_hint_to_use_it() -> None:
    assert "pika" not in banner(Settings(data_dir=Path("/d")), {"http": "http://h:1"}, "1.0")


def test_the_command_line_imports_neither_the_loop_nor_rich_before_it_needs_them() -> None:
    code = (
        "import sys, leveret.cli.main; print([m for m in ('asyncio', 'uvloop', 'rich', 'regex') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": SRC})
    assert done.stdout == "[]\n", done.stderr
