"""A whole stream, read over a socket."""

from __future__ import annotations

from leveret.wire.methods import BasicAck, BasicConsume, BasicDeliver, BasicQos, BasicQosOk
from tests.support.publishing import count
from tests.support.raw_client import Content, RawClient


def offset_of(content: Content) -> int:
    value = (content.properties.headers or {})["x-stream-offset"]
    assert isinstance(value, int)
    return value


def read_stream(url: str, name: str = "s") -> dict[int, bytes]:
    """Bodies by offset, from the beginning to the end as it is now, without gaps."""
    found: dict[int, bytes] = {}
    with RawClient.open(url) as client:
        number = count(client, name)
        client.call(BasicQos(0, 1000), BasicQosOk)
        client.send(BasicConsume(name, "r", nowait=True, arguments={"x-stream-offset": "first"}))
        last = None
        while len(found) < number:
            content = client.expect_content(BasicDeliver)
            offset = offset_of(content)
            assert last is None or offset == last + 1, f"{offset} follows {last}"
            last = offset
            found[offset] = content.body
            client.send(BasicAck(content.method.delivery_tag))
    return found
