"""CWE-203, observable discrepancy: a user without any permission on a name learns nothing by trying it. The answer is
the same, word for word, in a virtual host where the queues and exchanges exist and in an empty one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from leveret import Broker
from leveret.api.openapi.document import DESCRIBED
from leveret.wire.frames import decode_method
from leveret.wire.methods import (
    BasicConsume,
    BasicGet,
    ChannelClose,
    ChannelCloseOk,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
)
from tests.support.http_api import HttpApi
from tests.support.matrix_methods import METHODS
from tests.support.matrix_objects import arrange
from tests.support.matrix_requests import request_of, sample_of
from tests.support.matrix_users import PASSWORD, VHOST, MatrixUser, outcome
from tests.support.raw_client import RawClient, plain

EMPTY = "empty"
SHARDED = "sharded"  # an exchange over several queues, which can be consumed and declared by its name
USERS = {tag: MatrixUser(tag, "nothing") for tag in ("", "management")}
POOLED: dict[str, Method] = {
    "basic.consume": BasicConsume(SHARDED, "tag"),
    "basic.consume, x-shard-all": BasicConsume(SHARDED, "tag", arguments={"x-shard-all": True}),
    "basic.get": BasicGet(SHARDED),
    "queue.declare": QueueDeclare(SHARDED),
    "queue.declare, passive": QueueDeclare(SHARDED, passive=True),
    "queue.bind": QueueBind(SHARDED, "x", "k"),
    "queue.unbind": QueueUnbind(SHARDED, "x", "k"),
    "queue.purge": QueuePurge(SHARDED),
    "queue.delete": QueueDelete(SHARDED),
}


pytestmark = pytest.mark.broker(storage="disk", durability="os")


@pytest.fixture(scope="module")
def module_broker(module_broker: Broker) -> Broker:
    core = module_broker.node.broker

    def prepare() -> None:
        for vhost in (VHOST, EMPTY):
            core.add_vhost(vhost)
            for user in USERS.values():
                if user.name not in core.users:
                    core.users.add(user.name, password=PASSWORD, tags=[user.tag] if user.tag else [])
                core.permissions.set(user.name, vhost, "", "", "")

    module_broker.call(prepare)
    arrange(module_broker)
    module_broker.call(lambda: core.vhosts[VHOST].declare_exchange(SHARDED, "x-modulus-hash", durable=True))
    module_broker.call(lambda: core.policies.set(VHOST, "shards", f"^{SHARDED}$", {"shards-per-node": 2}))
    return module_broker


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.needs.permissions])
def test_over_amqp(name: str, broker: Broker) -> None:
    there, nowhere = (refusal(broker, vhost, *METHODS[name].said) for vhost in (VHOST, EMPTY))
    assert there == nowhere.replace(EMPTY, VHOST)
    assert there.startswith("403 ")


@pytest.mark.parametrize("name", POOLED)
def test_over_amqp_by_the_name_of_a_sharded_exchange(name: str, broker: Broker) -> None:
    there, nowhere = (refusal(broker, vhost, POOLED[name]) for vhost in (VHOST, EMPTY))
    assert there == nowhere.replace(EMPTY, VHOST)
    assert there.startswith("403 ")


def refusal(broker: Broker, vhost: str, *said: Method | bytes) -> str:
    with RawClient(broker.amqp_url) as client:
        client.handshake(response=plain(USERS[""].name, PASSWORD), virtual_host=vhost)
        client.open_channel(1)
        for each in said:
            client.send(each) if isinstance(each, Method) else client.send_bytes(each)
        client.send(ChannelClose(200, "done"))
        while True:
            found = client.next_frame()
            answer = decode_method(found.payload) if found.kind == 1 else None
            if isinstance(answer, ChannelClose):
                return f"{answer.reply_code} {answer.reply_text}"
            assert not isinstance(answer, ChannelCloseOk), "it was allowed"


def refused_over_http() -> Iterator[tuple[str, str]]:
    """Operations that take a permission on an object. Lists are shown to every management user of the vhost."""
    for tag, user in USERS.items():
        for key, operation in sorted(DESCRIBED.items()):
            needs = sample_of(key, operation).needs or operation.needs
            if needs.permissions and "{vhost}" in key and outcome(needs, user) == 403:
                yield tag, key


@pytest.mark.parametrize(("tag", "key"), list(refused_over_http()))
def test_over_http(tag: str, key: str, broker: Broker) -> None:
    method, path, body = request_of(key, DESCRIBED[key], broker.node.broker.node_name)
    api = HttpApi(broker.http_url, USERS[tag].name, PASSWORD)
    answers = []
    for vhost in (VHOST, EMPTY):
        response, answer = api.send(method, path.replace(f"/{VHOST}", f"/{vhost}"), body)
        answers.append((response.status, answer.decode().replace(f"'{vhost}'", "'vhost'")))
    assert answers[0] == answers[1]
    assert answers[0][0] == 403, answers


@pytest.mark.parametrize("query", ["queue=q", "queue=s", "super_stream=x", f"super_stream={SHARDED}", "pattern=q"])
def test_over_http_by_the_sources_of_a_pipeline(query: str, broker: Broker) -> None:
    api = HttpApi(broker.http_url, USERS[""].name, PASSWORD)
    answers = []
    for vhost in (VHOST, EMPTY):
        status, answer = api.get(f"/api/pipeline/{vhost}/sources?{query}")
        answers.append((status, answer["error"], answer["reason"].replace(f"'{vhost}'", "'vhost'")))
    assert answers[0] == answers[1]
