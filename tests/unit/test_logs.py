from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from leveret.logs import configure_logs, get_log

SRC = str(Path(__file__).parents[2] / "src")


@pytest.fixture
def process_logging() -> Iterator[None]:
    """Puts the process's logging back as it was."""
    root, ours = logging.getLogger(), logging.getLogger("leveret")
    kept = root.handlers[:], root.level, ours.level, logging.raiseExceptions
    yield
    root.handlers[:], level, our_level, logging.raiseExceptions = kept
    root.setLevel(level)
    ours.setLevel(our_level)


@pytest.fixture
def out(process_logging: None) -> io.StringIO:
    return io.StringIO()


def test_a_human_line_is_the_event_and_its_fields(out: io.StringIO) -> None:
    configure_logs("human", "info", out)
    get_log("leveret.session").info("connection opened", connection="127.0.0.1:5 -> 127.0.0.1:6", user="ann", took=0.25)
    (line,) = out.getvalue().splitlines()
    assert line[4] == "-"
    assert line.endswith(' info session connection opened connection="127.0.0.1:5 -> 127.0.0.1:6" user=ann took=0.25')


def test_a_json_line_is_one_object(out: io.StringIO) -> None:
    configure_logs("json", "info", out)
    get_log("leveret.session").bind(connection="c").info("opened", user="ann", channels=3, peer=object)
    shown = json.loads(out.getvalue())
    assert list(shown)[:4] == ["time", "level", "log", "event"]
    assert shown["level"] == "info"
    assert shown["log"] == "leveret.session"
    assert (shown["event"], shown["connection"], shown["user"], shown["channels"]) == ("opened", "c", "ann", 3)


@pytest.mark.parametrize("format", ["human", "json"])
def test_a_name_chosen_by_a_user_cannot_break_the_line_or_fake_a_field(out: io.StringIO, format: str) -> None:
    configure_logs(format, "info", out)
    get_log("x").info("queue\ndeclared", queue='q\nadmin=1 level="x"\u2028\x1b[31m', empty="")
    assert len(out.getvalue().splitlines()) == 1
    assert "\x1b" not in out.getvalue()
    if format == "human":
        assert r'queue="q\nadmin=1 level=\"x\"' in out.getvalue()
        assert 'empty=""' in out.getvalue()


@pytest.mark.parametrize("format", ["human", "json"])
def test_a_secret_field_is_masked_whatever_it_holds(out: io.StringIO, format: str) -> None:
    configure_logs(format, "debug", out)
    get_log("x").bind(token="hunter2").debug("login", user="ann", password="hunter2", response=b"\0ann\0hunter2")
    assert "hunter2" not in out.getvalue()
    assert "ann" in out.getvalue()


def test_the_level_decides_what_is_written(out: io.StringIO) -> None:
    configure_logs("human", "warning", out)
    log = get_log("leveret.x")
    log.debug("a")
    log.info("b")
    log.warning("c")
    log.error("d")
    assert [line.split()[2:] for line in out.getvalue().splitlines()] == [["warning", "x", "c"], ["error", "x", "d"]]


def test_a_bug_is_written_with_its_trace(out: io.StringIO) -> None:
    for format in ("human", "json"):
        configure_logs(format, "info", out)
        try:
            raise KeyError("lost")
        except KeyError:
            get_log("x").exception("bug", connection="c")
    human, _, last = out.getvalue().rpartition("\n{")
    assert "bug connection=c\n    Traceback" in human
    assert "KeyError: 'lost'" in json.loads("{" + last)["trace"]


def test_configuring_again_replaces_and_other_libraries_speak_from_warning_on(out: io.StringIO) -> None:
    configure_logs("human", "info", io.StringIO())
    configure_logs("human", "info", out)
    logging.getLogger("asyncio").info("quiet %s", 1)
    logging.getLogger("asyncio").warning("slow %s", "callback")
    (line,) = out.getvalue().splitlines()
    assert line.endswith("warning asyncio slow callback")


def test_unconfigured_logs_reach_the_application_as_ordinary_records(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="leveret"):
        get_log("leveret.queues").info("queue declared", queue="q")
    assert caplog.messages == ["queue declared queue=q"]
    assert caplog.records[0].name == "leveret.queues"
    assert caplog.records[0].funcName.startswith("test_unconfigured")


def test_an_embedding_process_that_configures_nothing_sees_and_loses_nothing() -> None:
    code = (
        "import logging, leveret.logs as l; l.get_log('leveret.x').error('e'); root = logging.getLogger();"
        "assert not root.handlers and root.level == logging.WARNING and logging.raiseExceptions"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": SRC})
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("format", ["human", "json"])
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("amqp://anna:hunter2@shop/orders", "amqp://anna:***@shop/orders"),
        ("amqp://anna:hunt@er2@shop", "amqp://anna:***@shop"),
        ("tried amqp://:hunt/er2@shop twice", "tried amqp://:***@shop twice"),
        ("amqp://anna@shop:5672/a", "amqp://anna@shop:5672/a"),
        ("127.0.0.1:5 -> 127.0.0.1:6", "127.0.0.1:5 -> 127.0.0.1:6"),
    ],
)
@pytest.mark.feature("S4-72")
def test_the_password_in_an_address_is_never_written(out: io.StringIO, format: str, text: str, shown: str) -> None:
    """A client may call its connection by the address that it connects to."""
    configure_logs(format, "info", out)
    get_log("x").info("connection open", client=text)
    assert shown in out.getvalue()
    assert "hunt" not in out.getvalue()
