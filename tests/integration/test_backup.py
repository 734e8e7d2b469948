"""``leveret backup`` and ``leveret restore`` as processes, beside brokers that are processes too."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPError

from tests.support.broker_process import BrokerProcess
from tests.support.data_commands import (
    SECONDS,
    checked,
    done,
    drained,
    fill,
    leveret,
    publish,
    refused,
    started,
    stop,
    stopped_broker,
    talking,
)
from tests.support.forked_broker import ForkedBroker
from tests.support.synchronous_store import picture, segments_of


def another(folder: Path, name: str) -> Path:
    """A folder for a second broker, which ``BrokerProcess`` starts on ``data`` in it."""
    (folder / name).mkdir()
    return folder / name


def inodes(path: Path) -> set[int]:
    return {entry.stat().st_ino for entry in path.rglob("*") if entry.is_file()}


# ---- backup


class Load:
    """A publisher with confirms and a consumer that acks, in two threads, until told to stop. Bodies carry their own
    digest, so that one that was altered is known."""

    def __init__(self, serving: BrokerProcess) -> None:
        self.sent: set[bytes] = set()
        self.confirmed: list[bytes] = []
        self.acked: set[bytes] = set()
        self._serving = serving
        self._ends = threading.Event()
        self._problems: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._guarded, args=(work,)) for work in (self._publish, self._consume)
        ]
        for thread in self._threads:
            thread.start()

    def _guarded(self, work: Callable[[BlockingChannel], None]) -> None:
        try:
            with talking(self._serving) as channel:
                work(channel)
        except (AMQPError, AssertionError, OSError) as problem:
            self._problems.append(problem)

    def _publish(self, channel: BlockingChannel) -> None:
        number = 0
        while not self._ends.is_set():
            number += 1
            text = b"%d " % number + os.urandom(600).hex().encode()
            body = sha256(text).hexdigest().encode() + text
            self.sent.add(body)
            publish(channel, "load", body)
            self.confirmed.append(body)

    def _consume(self, channel: BlockingChannel) -> None:
        """Two of three; the others stay."""
        number = 0
        while not self._ends.is_set():
            if len(self.confirmed) < number + 200:
                channel.connection.sleep(0.001)
                continue
            number += 1
            method, _, body = channel.basic_get("load")
            assert method is not None
            if number % 3:
                self.acked.add(body)
                channel.basic_ack(method.delivery_tag)

    def wait_for(self, number: int) -> None:
        """So many more confirms."""
        wanted = len(self.confirmed) + number
        deadline = time.monotonic() + SECONDS
        while len(self.confirmed) < wanted and not self._problems:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert not self._problems

    def stop(self) -> None:
        self._ends.set()
        for thread in self._threads:
            thread.join(SECONDS)
        assert not self._problems


def assert_kept(found: list[bytes], confirmed: set[bytes], load: Load) -> None:
    altered = [body for body in found if sha256(body[64:]).hexdigest().encode() != body[:64]]
    assert altered == []
    assert set(found) <= load.sent
    assert len(set(found)) == len(found)
    lost = confirmed - set(found)
    assert not lost, f"{len(lost)} of {len(confirmed)}"


def test_a_backup_under_load_has_all_that_was_confirmed_before_and_the_broker_goes_on(tmp_path: Path) -> None:
    """Small segments, so that many are sealed, reclaimed and removed meanwhile."""
    promised: dict[str, set[bytes]] = {}
    with ForkedBroker(tmp_path, "--segment-size", "64KiB") as serving:
        fill(serving, queue="load")
        load = Load(serving)
        load.wait_for(400)
        for name in ("first", "second", "third"):
            before = set(load.confirmed)
            done("backup", tmp_path / "data", tmp_path / f"{name}.backup")
            promised[name] = before - load.acked
            load.wait_for(100)
        load.stop()
        segments = checked(tmp_path / "first.backup")["segments"]
        assert len(segments) > 5
        stop(serving)
    assert [name for name in os.listdir(tmp_path / "data") if name.startswith("backup-")] == []
    for name, confirmed in promised.items():
        folder = another(tmp_path, name)
        told = done("restore", tmp_path / f"{name}.backup", folder / "data")
        with ForkedBroker(folder) as restored:
            found = drained(restored, "load")
        assert_kept([body for body, _ in found], confirmed, load)
        assert len(confirmed) > 100
        assert all(redelivered for _, redelivered in found)
        assert f"{len(found)} messages in 1 queue," in told


def test_a_backup_of_a_broker_that_was_restarted_marks_what_was_delivered_since(tmp_path: Path) -> None:
    """The life before ended with a clean stop, and nothing was written since; but the message was delivered."""
    stopped_broker(tmp_path, b"m")
    with ForkedBroker(tmp_path) as serving:
        with talking(serving) as channel:
            assert channel.basic_get("q")[2] == b"m"
            done("backup", tmp_path / "data", tmp_path / "backup")
    folder = another(tmp_path, "other")
    done("restore", tmp_path / "backup", folder / "data")
    with ForkedBroker(folder) as restored:
        assert drained(restored) == [(b"m", True)]


def test_a_broker_on_the_restored_copy_changes_neither_the_backup_nor_the_original(tmp_path: Path) -> None:
    path, backup, folder = tmp_path / "data", tmp_path / "backup", another(tmp_path, "other")
    with ForkedBroker(tmp_path) as serving:
        fill(serving, *[b"x" * 1000] * 50)
        done("backup", path, backup)
        fill(serving, b"later")
        stop(serving)
    before = picture(path), picture(backup)
    done("restore", backup, folder / "data")
    with ForkedBroker(folder) as restored:
        assert len(drained(restored)) == 50
        stop(restored)
    assert not inodes(folder) & (inodes(path) | inodes(backup))
    assert (picture(path), picture(backup)) == before
    assert checked(path)["messages"] == 51
    assert checked(folder / "data")["messages"] == 0


def test_a_backup_goes_on_meaning_the_same_while_the_broker_lives_on(tmp_path: Path) -> None:
    """The links to its segments keep their content when the broker settles, reclaims and removes, and is killed."""
    path, backup = tmp_path / "data", tmp_path / "backup"
    with ForkedBroker(tmp_path, "--segment-size", "64KiB") as serving:
        fill(serving, *[b"%d" % number * 500 for number in range(100)])
        done("backup", path, backup)
        contents = {name: facts[-1] for name, facts in picture(backup).items()}
        assert len(drained(serving)) == 100
        fill(serving, *[b"y" * 1000] * 100)
        serving.process.kill()
    with ForkedBroker(tmp_path) as serving:
        serving.url()
    assert {name: facts[-1] for name, facts in picture(backup).items()} == contents
    assert checked(backup)["messages"] == 100


def test_a_backup_without_a_broker_keeps_what_was_delivered_apart(tmp_path: Path) -> None:
    """After a clean stop the copy is as clean: only what was delivered before is marked."""
    with ForkedBroker(tmp_path) as serving:
        fill(serving, b"seen", b"unseen")
        with talking(serving) as channel:
            assert channel.basic_get("q")[2] == b"seen"
        stop(serving)
    folder = another(tmp_path, "other")
    assert "1 queue," in done("backup", tmp_path / "data", tmp_path / "backup")
    done("restore", tmp_path / "backup", folder / "data")
    with ForkedBroker(folder) as restored:
        assert drained(restored) == [(b"seen", True), (b"unseen", False)]


def test_a_backup_of_a_killed_broker_has_the_definitions_that_were_in_its_log(tmp_path: Path) -> None:
    with ForkedBroker(tmp_path) as serving:
        fill(serving, b"m")
        serving.process.kill()
    assert (tmp_path / "data" / "meta.db-wal").stat().st_size
    before = picture(tmp_path / "data")
    folder = another(tmp_path, "other")
    done("backup", tmp_path / "data", tmp_path / "backup")
    after = picture(tmp_path / "data")
    assert {name: facts[-1] for name, facts in after.items()} == {name: facts[-1] for name, facts in before.items()}
    done("restore", tmp_path / "backup", folder / "data")
    with ForkedBroker(folder) as restored:
        assert drained(restored) == [(b"m", True)]


def test_a_backup_to_another_file_system_is_a_copy(tmp_path: Path) -> None:
    elsewhere = Path("/dev/shm")
    if not elsewhere.is_dir() or elsewhere.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("kernel: no second file system to copy to")
    target = elsewhere / f"leveret-test-{os.getpid()}"
    try:
        with ForkedBroker(tmp_path) as serving:
            fill(serving, *[os.urandom(1 << 20) for _ in range(12)])
            done("backup", tmp_path / "data", target)
        assert checked(target)["messages"] == 12
        assert not (target / "incomplete").exists()
        assert [name for name in os.listdir(tmp_path / "data") if name.startswith("backup-")] == []
    finally:
        subprocess.run(["rm", "-rf", str(target)], check=True)


def test_a_target_in_use_is_refused_by_the_broker_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter").write_text("dear")
    with ForkedBroker(tmp_path) as serving:
        serving.url()
        assert "not empty: choose another path" in refused("backup", tmp_path / "data", tmp_path / "full")
        assert "inside the data directory" in refused("backup", tmp_path / "data", tmp_path / "data" / "backup")
        assert os.listdir(tmp_path / "data" / "requests") == []
    assert "not empty: choose another path" in refused("backup", tmp_path / "data", tmp_path / "full")
    assert [entry.name for entry in (tmp_path / "full").iterdir()] == ["letter"]


def test_a_broker_that_does_not_answer_is_given_up_and_makes_no_backup_later(tmp_path: Path) -> None:
    with ForkedBroker(tmp_path) as serving:
        serving.url()
        os.kill(serving.process.pid, signal.SIGSTOP)
        told = refused("backup", tmp_path / "data", tmp_path / "backup", "--timeout", "0.5")
        os.kill(serving.process.pid, signal.SIGCONT)
        assert f"in use by a broker (process {serving.process.pid})" in told
        assert "has not started the backup after 0.5 seconds" in told
        assert os.listdir(tmp_path / "data" / "requests") == []
        done("backup", tmp_path / "data", tmp_path / "second")
    assert not (tmp_path / "backup").exists()


def wait_for_request(path: Path) -> None:
    deadline = time.monotonic() + SECONDS
    while not any(name.endswith(".json") for name in os.listdir(path / "requests")):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_command_that_is_interrupted_takes_its_request_back(tmp_path: Path) -> None:
    with ForkedBroker(tmp_path) as serving:
        serving.url()
        os.kill(serving.process.pid, signal.SIGSTOP)
        with started("backup", tmp_path / "data", tmp_path / "backup") as process:
            wait_for_request(tmp_path / "data")
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=SECONDS)
        assert process.returncode != 0
        assert os.listdir(tmp_path / "data" / "requests") == []


def test_a_broker_that_dies_meanwhile_is_noticed(tmp_path: Path) -> None:
    with ForkedBroker(tmp_path) as serving:
        serving.url()
        os.kill(serving.process.pid, signal.SIGSTOP)
        with started("backup", tmp_path / "data", tmp_path / "backup") as process:
            wait_for_request(tmp_path / "data")
            serving.process.kill()
            _, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 2
    assert "stopped before the backup was complete: run the command again" in err


def test_what_an_earlier_life_left_is_removed_and_never_served(tmp_path: Path) -> None:
    path = stopped_broker(tmp_path)
    (path / f"backup-{'0' * 32}" / "journal").mkdir(parents=True)
    request = path / "requests" / f"{'1' * 32}.json"
    request.write_text(json.dumps({"kind": "backup", "target": str(tmp_path / "unwanted")}))
    with ForkedBroker(tmp_path) as serving:
        serving.url()
        done("backup", path, tmp_path / "wanted")  # which comes after the old one
    assert not (path / f"backup-{'0' * 32}").exists()
    assert not request.exists()
    assert not (tmp_path / "unwanted").exists()
    assert "older than this broker" in (path / "requests" / f"{'1' * 32}.answer").read_text()


# ---- restore


def test_a_damaged_backup_is_restored_by_force_only(tmp_path: Path) -> None:
    path = stopped_broker(tmp_path, b"first", b"second", b"third")
    done("backup", path, tmp_path / "backup")
    (file,) = [file for file in segments_of(tmp_path / "backup") if b"second" in file.read_bytes()]
    file.write_bytes(file.read_bytes().replace(b"second", b"secret"))
    folder = another(tmp_path, "other")
    result = leveret("restore", tmp_path / "backup", folder / "data")
    assert result.returncode == 1
    assert "restore the intact part with --force" in result.stderr
    assert not (folder / "data").exists()
    assert "2 messages" in done("restore", tmp_path / "backup", folder / "data", "--force")
    with ForkedBroker(folder) as restored:
        assert [body for body, _ in drained(restored)] == [b"first", b"third"]


def test_restore_refuses_what_it_cannot_do_with_the_remedy(tmp_path: Path) -> None:
    path = stopped_broker(tmp_path, b"m")
    done("backup", path, tmp_path / "backup")
    assert "not empty: choose another path" in refused("restore", tmp_path / "backup", path)
    assert "does not exist: create it first" in refused("restore", tmp_path / "backup", tmp_path / "a" / "b")
    assert "not a Leveret data directory" in refused("restore", another(tmp_path, "empty"), tmp_path / "new")
    with ForkedBroker(tmp_path) as serving:
        serving.url()
        assert "in use by a broker" in refused("restore", path, tmp_path / "new")
    (tmp_path / "backup" / "format").write_text("leveret data directory, format 3\n")
    assert "format 3, this Leveret reads up to 2: upgrade" in refused("restore", tmp_path / "backup", tmp_path / "n")
    assert not (tmp_path / "new").exists()
