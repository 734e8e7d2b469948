"""Data directories of all earlier versions: everything that they kept is there, at the first start and at the next."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import leveret
from leveret import Settings
from leveret.errors import StoreError
from leveret.store.data_dir import FORMAT, SENTENCE
from tests.support.kept_data import DUE, LARGE, OBJECTS, PROPERTIES, channel_to, http_request, messages_of, read_log

FIXTURES = Path(__file__).parents[1] / "fixtures"
ARCHIVES = sorted(path.name.removesuffix(".tar.gz") for path in FIXTURES.glob("data_dir_*.tar.gz"))
FIRST = "data_dir_v1_first"  # without what came after the first durable store
NUMBERED = [b"message %d" % number for number in range(20)]


@pytest.fixture(params=ARCHIVES)
def archive(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def data(archive: str, tmp_path: Path) -> Path:
    with tarfile.open(FIXTURES / f"{archive}.tar.gz") as tar:
        tar.extractall(tmp_path / "data", filter="data")
    return tmp_path / "data"


@contextmanager
def started(data: Path) -> Iterator[tuple[str, str]]:
    settings = Settings(amqp_port=0, http_port=0, data_dir=data)
    with leveret.Broker(settings) as broker:
        address = broker.amqp_url.rpartition("@")[2]
        yield f"amqp://guest:guest@{address}", broker.http_url


def check_messages(amqp: str) -> None:
    with channel_to(amqp) as channel:
        plain = messages_of(channel, "plain")
        assert [body for _, body in plain] == [*NUMBERED, b'{"tea": 1}', LARGE]
        kept = plain[20][0]
        assert (kept.headers, kept.content_type) == (PROPERTIES.headers, PROPERTIES.content_type)
        assert [body for _, body in messages_of(channel, "priority")] == [b"priority 9", b"priority 5", b"priority 1"]
        assert [body for _, body in messages_of(channel, "acknowledged")] == NUMBERED[18:]
        channel.exchange_declare("orders", "topic", passive=True)


def check_features(amqp: str, http: str, entries: list[bytes]) -> None:
    with channel_to(amqp) as channel:
        ((dead, _),) = messages_of(channel, "dead")
        assert dead.headers["x-first-death-queue"] == "refused"
        assert dead.headers["x-death"][0]["reason"] == "rejected"
        ((counted, _),) = messages_of(channel, "counted")
        assert counted.headers["x-delivery-count"] >= 1
        assert read_log(channel, len(entries), "next") == entries
        assert [body for _, body in messages_of(channel, "mixed")] == [b"mixed %d" % number for number in range(200)]
    (scheduled,) = http_request(http, "/api/schedules/%2F")["messages"]
    assert scheduled["due"] == pytest.approx(DUE / 1000)
    bindings = http_request(http, "/api/bindings/%2F")
    assert ("amq.headers", "orders") in {(each["destination"], each["source"]) for each in bindings}


def check_definitions(http: str) -> None:
    assert http_request(http, "/api/whoami", login="till:green tea")["tags"] == ["monitoring"]
    for path, wanted in OBJECTS.items():
        found = found_at(http, path)
        for name, value in wanted.items():
            if name != "password":
                assert found[name] == value or found[name] == [value], path


def found_at(http: str, path: str) -> Any:
    """The object; limits and topic permissions are listed by virtual host or user."""
    if "limits" in path:
        above, _, name = path.rpartition("/")
        return {"value": http_request(http, above)[0]["value"][name]}
    found = http_request(http, path)
    return found[0] if isinstance(found, list) else found


def test_an_archive_of_each_version_is_opened_twice(archive: str, data: Path) -> None:
    for entries in ([b"entry 4", b"entry 5"], [b"entry 6", b"entry 7"]):
        with started(data) as (amqp, http):
            check_messages(amqp)
            if archive != FIRST:
                check_features(amqp, http, entries)
                check_definitions(http)
        assert (data / "format").read_text() == SENTENCE.format(FORMAT)


def test_the_newest_format_has_an_archive() -> None:
    assert f"data_dir_v{FORMAT}" in ARCHIVES


def test_a_newer_format_is_refused_with_the_remedy_and_left_alone(data: Path) -> None:
    (data / "format").write_text(SENTENCE.format(FORMAT + 1))
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file() and path.name != "lock"}
    with pytest.raises(StoreError, match=rf"has format {FORMAT + 1}, this Leveret .*: upgrade Leveret or set data_dir"):
        with started(data):
            pass
    assert before == {path: path.read_bytes() for path in before}
