"""CWE-409, improper handling of highly compressed data (data amplification), and CWE-770, allocation of resources
without limits: an Arrow stream that is small on the wire must not become large in the broker, and a user without
permission is refused before its stream is decoded."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.arrow_bombs import (
    MIB,
    compressed_by_deprecated_key,
    list_of_empty_structs,
    list_of_nothing,
    many_booleans,
    many_large_variants,
    many_null_headers,
    many_views,
    rows_of_nothing,
    shared_buffers,
    variant_of_one_text,
)
from tests.support.attack_target import AttackTarget
from tests.support.http_api import HttpApi, arrow_stream, vhost_path

pytestmark = pytest.mark.quiet

TARGETS = {
    vhost_path("messages"): {},
    vhost_path("stages"): {"transaction": "t", "batch": 0},
}


@pytest.fixture
def attacked(tmp_path: Path) -> Iterator[AttackTarget]:
    with AttackTarget(tmp_path) as running:
        yield running


@pytest.mark.parametrize(
    "bomb",
    [
        pytest.param(lambda: compressed_by_deprecated_key(512 * MIB), id="compressed-by-deprecated-key"),
        pytest.param(lambda: many_views(50, 12 * MIB), id="many-views-of-one-buffer"),
        pytest.param(lambda: shared_buffers(15 * MIB), id="columns-that-share-buffers"),
        pytest.param(rows_of_nothing, id="rows-of-nothing"),
    ],
)
@pytest.mark.parametrize("is_permitted", [False, True], ids=["without-permission", "with-permission"])
def test_a_small_stream_does_not_become_large(attacked: AttackTarget, bomb: object, is_permitted: bool) -> None:
    attacker = attacked.api
    if not is_permitted:
        attacked.api.send("PUT", "/api/users/eve", b'{"password": "eve", "tags": ""}')
        attacked.api.send("PUT", "/api/permissions/%2F/eve", b'{"configure": "", "write": "", "read": ""}')
        attacker = HttpApi(attacked.url("http"), "eve", "eve")
    assert callable(bomb)
    stream = bomb()
    answers = [attacker.post(path, stream, **query)[0] for path, query in TARGETS.items()]
    attacked.check()
    assert answers == [400 if is_permitted else 403] * 2


def test_small_headers_do_not_become_large(attacked: AttackTarget) -> None:
    bombs = (
        list_of_nothing(20_000_000),
        list_of_empty_structs(2_000_000),
        many_booleans(8_000_000),
        many_null_headers(1_000, 10_000),
        variant_of_one_text(9_900, 38_000),
        many_large_variants(800),
    )
    answers = [attacked.api.post(path, bomb, **query)[0] for bomb in bombs for path, query in TARGETS.items()]
    attacked.check()
    assert answers == [400] * len(answers)


def test_many_large_uploads_at_once_stay_within_the_watermark(attacked: AttackTarget) -> None:
    """Some are answered with 503; none holds the event loop, by itself or through the worker threads."""
    stream = arrow_stream(pa.record_batch({"body": pa.array([bytes(1 * MIB)] * 20)}))
    properties = dict.fromkeys(("message_id", "correlation_id", "app_id", "type", "reply_to"), "some text")
    properties |= {"timestamp": datetime(2026, 1, 1, tzinfo=UTC), "priority": 3}
    headers = pa.array([[("some", "value"), ("another", "value")]] * 50_000, pa.map_(pa.string(), pa.string()))
    columns = {"body": [b"x"] * 50_000, "properties": [properties] * 50_000, "headers": headers}
    rows = arrow_stream(pa.record_batch(columns))
    with ThreadPoolExecutor(8) as uploads:
        jobs = [
            uploads.submit(attacked.api.post, vhost_path("messages"), body, exchange="amq.fanout")
            for body in [stream, rows] * 4
        ]
        answers = {job.result()[0] for job in jobs}
    attacked.check()
    assert 200 in answers
    assert answers <= {200, 503}
