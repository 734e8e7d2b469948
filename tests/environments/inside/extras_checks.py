"""Run in the environments with the extras `arrow` and `cluster`: rows as Arrow over HTTP, and a replicated cell."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pyarrow as pa

import leveret
from leveret.client.blocking import connect
from leveret.config import Settings

LEVERET = str(Path(sys.executable).with_name("leveret"))
SETTINGS = Settings(amqp_port=0, http_port=0, stomp_port=None, shutdown_timeout=0.5)
ARROW = "application/vnd.apache.arrow.stream"
BASIC = "Basic Z3Vlc3Q6Z3Vlc3Q="  # guest


def test_rows_are_published_and_fetched_as_arrow() -> None:
    batch = pa.record_batch({"body": pa.array([b"one", b"two"]), "routing_key": pa.array(["q", "q"])})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    with leveret.Broker(SETTINGS) as broker:
        broker.vhost().declare_queue("q")
        url = f"{broker.http_url}/api/pipeline/%2F/messages"
        assert b'"messages":2' in sent(f"{url}?exchange=", sink.getvalue().to_pybytes())
        table = pa.ipc.open_stream(sent(f"{url}?queue=q")).read_all()
    assert table.column("body").to_pylist() == [b"one", b"two"]
    assert table.column("routing_key").to_pylist() == ["q", "q"]


def sent(url: str, body: bytes | None = None) -> bytes:
    request = urllib.request.Request(url, body, {"Authorization": BASIC, "Content-Type": ARROW})
    with urllib.request.urlopen(request, timeout=60) as answer:
        received: bytes = answer.read()
        return received


def test_a_replicated_cell_stores_messages(tmp_path: Path) -> None:
    command = [LEVERET, "cluster", "demo", "--nodes", "2", "--data-dir", str(tmp_path / "data")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = next(found[1] for line in process.stdout if (found := re.search(r"(amqp://admin\S+)$", line)))
            with connect(url) as connection:  # its end waits for confirms
                channel = connection.channel()
                channel.declare_queue("q", durable=True)
                channel.confirm_select()
                channel.publish(b"one", routing_key="q")
            with connect(url) as connection:
                found = connection.channel().get("q", no_ack=True)
                assert found is not None
                assert found.body == b"one"
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
    assert process.returncode == 0
