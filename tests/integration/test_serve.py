"""``leveret serve`` as a process: where it listens, how it stops, what it logs, where its settings come from."""

from __future__ import annotations

import json
import os
import resource
import socket
import ssl
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
import trustme

from leveret.wire.methods import (
    BasicGet,
    BasicGetOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    QueueDeclare,
    QueueDeclareOk,
)
from tests.support.broker_process import BrokerProcess
from tests.support.raw_client import RawClient, eventually


@pytest.mark.feature("S4-56", "S4-62")
def test_the_banner_names_the_url_of_a_picked_port_and_the_data(tmp_path: Path) -> None:
    """What it says can be used as it is."""
    with BrokerProcess(tmp_path) as serving:
        url = serving.url()
        assert url.startswith("amqp://guest:guest@127.0.0.1:")
        assert str(tmp_path / "data") in serving.banner()
        with RawClient.open(url) as client:
            client.call(QueueDeclare("hello"), QueueDeclareOk)
            client.publish("", "hello", b"Hello")
            client.send(BasicGet("hello"))
            assert client.expect_content(BasicGetOk).body == b"Hello"


def test_a_taken_port_is_an_error_that_names_the_setting(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with BrokerProcess(tmp_path, port=str(port)) as serving:
            assert serving.exit_code() == 2
            told = serving.log()
    assert f"port {port} on 127.0.0.1 is in use" in told
    assert "set amqp_port to another one" in told
    assert "Traceback" not in told


def test_sigterm_tells_clients_320_and_ends_in_time(tmp_path: Path) -> None:
    """Three kinds of peers: one that answers, one that never does, one in the middle of its handshake."""
    with BrokerProcess(tmp_path) as serving:
        url = serving.url()
        with RawClient.open(url) as polite, RawClient.open(url) as deaf, RawClient(url) as halfway:
            halfway.login()
            begun = time.monotonic()
            serving.terminate()
            closed = polite.expect_close(320)
            assert "shutdown" in closed.reply_text
            assert serving.exit_code() == 0
            assert time.monotonic() - begun < 10
            frames = list(deaf.frames())
        assert len(frames) == 1  # its close; then the socket ended
    assert "Traceback" not in serving.log()


@pytest.mark.quiet
def test_sigterm_without_clients_ends_at_once(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as serving:
        serving.banner()
        begun = time.monotonic()
        serving.terminate()
        assert serving.exit_code() == 0
        assert time.monotonic() - begun < 2


def test_json_logs_are_json_and_name_the_connection(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, "--log-format", "json") as serving:
        ready = serving.ready_line()
        assert "recovered_messages" not in ready
        with RawClient.open(ready["amqp"]) as client:
            here, there = client.socket.getsockname(), client.socket.getpeername()
            client.send(QueueDeclare("none", passive=True))
            client.expect_channel_close(404)
            client.close()
        serving.terminate()
        assert serving.exit_code() == 0
        assert serving.process.stdout is not None
        assert serving.process.stdout.read() == b""  # programs read the output: no banner
        lines = [json.loads(line) for line in serving.log().splitlines()]
    name = f"{here[0]}:{here[1]} -> {there[0]}:{there[1]}"
    events = [line["event"] for line in lines if line.get("connection") == name]
    assert "connection opened" in events
    assert "channel closed with an error" in events
    assert "connection closed" in events
    assert all({"time", "level", "log", "event"} <= line.keys() for line in lines)


def test_human_logs_are_one_line_each_and_tell_no_secret(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, "--login-failure-delay", "0") as serving:
        with RawClient(serving.url()) as client:
            peer = "{}:{}".format(*client.socket.getsockname())
            client.login(response=b"\0guest\0not the pass\nword")
            client.expect_close(403)
        serving.terminate()
        assert serving.exit_code() == 0
        lines = serving.log().splitlines()
    (told,) = [line for line in lines if peer in line]
    assert f'login refused user=guest peer={peer} mechanism=PLAIN reason="wrong password"' in told
    assert not any("not the pass" in line for line in lines)
    assert all(line[:4].isdigit() for line in lines)  # each begins with its date


def test_tls_flags_open_a_second_door(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(tmp_path / "server.pem")
    flags = ("--tls-cert", str(tmp_path / "server.pem"), "--tls-ca", str(tmp_path / "ca.pem"), "--amqps-port", "0")
    context = ssl.create_default_context()
    authority.configure_trust(context)
    authority.issue_cert(common_name="guest").configure_cert(context)
    with BrokerProcess(tmp_path, *flags) as serving:
        with RawClient.open(serving.url("amqps"), tls=context, mechanism="EXTERNAL", response=b"") as sealed:
            sealed.is_alive()
        with RawClient.open(serving.url("amqp")) as plain:
            plain.is_alive()


CONFIG = """
[listeners]
amqp_port = 0
[limits]
channel_max = 5
[[bootstrap.vhosts]]
name = "shop"
max_queues = 1
[[bootstrap.users]]
name = "ann"
password = "ann's"
[[bootstrap.permissions]]
user = "ann"
vhost = "shop"
configure = ".*"
write = ".*"
read = ".*"
"""


def test_a_config_file_sets_limits_and_brings_users(tmp_path: Path) -> None:
    (tmp_path / "leveret.toml").write_text(CONFIG)
    with BrokerProcess(tmp_path, "--config", str(tmp_path / "leveret.toml"), port=None) as serving:
        url = serving.url().replace("guest:guest", "ann:ann's") + "shop"
        with RawClient.open(url, channels=5) as client:
            client.call(QueueDeclare("only"), QueueDeclareOk)
            client.send(QueueDeclare("another"))
            client.expect_channel_close(406)


def test_variables_win_over_the_file_and_flags_over_variables(tmp_path: Path) -> None:
    (tmp_path / "leveret.toml").write_text(CONFIG)
    variables = {"LEVERET_CONFIG": str(tmp_path / "leveret.toml"), "LEVERET_CHANNEL_MAX": "3"}
    variables |= {"LEVERET_DEFAULT_USER": "root", "LEVERET_DEFAULT_PASSWORD": "toor", "LEVERET_FRAME_MAX": "9000"}
    with BrokerProcess(tmp_path, "--frame-max", "8192", environ=variables, port=None) as serving:
        url = serving.url()
        assert "toor" not in serving.banner()
        with RawClient(url.replace("root@", "root:toor@")) as client:
            client.handshake()
            assert client.frame_max == 8192
            for number in range(1, 4):
                client.open_channel(number)


def test_a_wrong_setting_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, "--frame-max", "100") as serving:
        assert serving.exit_code() == 2
        assert len(serving.log().splitlines()) == 1
        assert "frame_max" in serving.log()


@pytest.mark.quiet
def test_it_listens_after_less_than_a_second_of_work(tmp_path: Path) -> None:
    """The processor's time of the process, best of three: what else the machine does can only add to it."""
    assert min(work_until_it_listens(tmp_path / str(number)) for number in range(3)) < 1


@pytest.mark.quiet
def test_with_page_and_pipeline_it_listens_after_less_than_two_seconds_of_work(tmp_path: Path) -> None:
    """As above, with every listener that has no need of a certificate."""
    flags = ("--http-port", "0", "--stomp-port", "0")
    assert min(work_until_it_listens(tmp_path / str(number), *flags) for number in range(3)) < 2


def work_until_it_listens(folder: Path, *flags: str) -> float:
    folder.mkdir()
    with BrokerProcess(folder, *flags) as serving:
        with RawClient(serving.url()) as client:
            client.send_bytes(b"AMQP\0\0\x09\x01")
            client.expect(ConnectionStart, 0)
        stat = Path(f"/proc/{serving.process.pid}/stat").read_text()
    user_and_system = stat.rpartition(")")[2].split()[11:13]
    return sum(map(int, user_and_system)) / os.sysconf("SC_CLK_TCK")


def test_running_out_of_files_refuses_new_peers_and_harms_nobody(tmp_path: Path) -> None:
    """With 100 descriptors: some are let in, the rest turned away at once; when some leave, others may come."""

    def few_files() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))

    with ExitStack() as stack:
        serving = stack.enter_context(BrokerProcess(tmp_path, before=few_files))
        url = serving.url()
        inside: list[RawClient] = []
        refused = 0
        while refused < 20:
            client = stack.enter_context(RawClient(url))
            client.send_bytes(b"AMQP\0\0\x09\x01")
            frame = next(iter(client.frames()), None)
            if frame is None:
                refused += 1
                continue
            assert not refused  # once it is full it stays full
            client.unread(frame)
            finish_handshake(client)
            inside.append(client)
            assert len(inside) < 100
        assert 20 <= len(inside) <= 60  # some are kept for files, and for an operator
        crowd = [stack.enter_context(socket.create_connection(address(url), 5)) for _ in range(150)]
        for client in inside:
            client.is_alive()
        for one in crowd:
            one.close()
        inside.pop().close()
        eventually(lambda: can_enter(url))
        for client in inside:
            client.is_alive()
    assert "Traceback" not in serving.log()


def test_a_flood_of_unfinished_tls_handshakes_harms_nobody(tmp_path: Path) -> None:
    """They count from the accept on, and make room for others long before the handshake timeout."""

    def few_files() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))

    authority = trustme.CA()
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(tmp_path / "server.pem")
    flags = ("--tls-cert", str(tmp_path / "server.pem"), "--amqps-port", "0", "--handshake-timeout", "60")
    with BrokerProcess(tmp_path, *flags, before=few_files) as serving, ExitStack() as stack:
        inside = stack.enter_context(RawClient.open(serving.url("amqp")))
        door = address(serving.url("amqps"))
        for _ in range(150):
            stack.enter_context(socket.create_connection(door, 5))
        assert can_enter(serving.url("amqp"))
        assert can_enter(serving.url("amqp"))
        inside.is_alive()


def finish_handshake(client: RawClient) -> None:
    """The greeting was sent and the answer put back."""
    client.expect(ConnectionStart, 0)
    client.send(ConnectionStartOk({}, "PLAIN", b"\0guest\0guest"), 0)
    client.tune()
    client.call(ConnectionOpen("/"), ConnectionOpenOk, 0)
    client.open_channel(1)


def address(url: str) -> tuple[str, int]:
    host, _, port = url.partition("@")[2].partition("/")[0].rpartition(":")
    return host, int(port)


def can_enter(url: str) -> bool:
    try:
        with RawClient(url, timeout=15) as client:
            client.send_bytes(b"AMQP\0\0\x09\x01")
            return next(iter(client.frames()), None) is not None
    except (OSError, AssertionError):
        return False
