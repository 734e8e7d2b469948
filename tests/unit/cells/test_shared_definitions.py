"""Definitions that span cells: made in any cell, known in all."""

from __future__ import annotations

import pytest

from leveret.broker.vhost_metadata import metadata_of, note_metadata
from leveret.cells.definition_service import DefinitionService
from leveret.errors import PreconditionFailed
from leveret.routing.bindings import Binding, Destination
from leveret.routing.bounds import Bounds
from leveret.schemas.schema import Schema
from leveret.wire.methods import (
    BasicCancel,
    ChannelClose,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueueUnbind,
    QueueUnbindOk,
)
from tests.support.cell_cluster import CellCluster
from tests.support.cell_wires import DefinitionWire
from tests.support.peer_pair import Client, Content


@pytest.fixture
def cells() -> CellCluster:
    return CellCluster(3)


def where(cells: CellCluster, queue: str) -> list[str]:
    """The class of the queue in each cell."""
    return [type(cell.vhost.queues[queue]).__name__ if queue in cell.vhost.queues else "-" for cell in cells.cells]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_queue_lives_where_it_is_declared(cells: CellCluster, place: int) -> None:
    client = cells[place].client()
    assert client.ask(QueueDeclare("q", durable=True)) == QueueDeclareOk("q", 0, 0)
    expected = ["RemoteQueue"] * 3
    expected[place] = "ClassicQueue"
    assert where(cells, "q") == expected


@pytest.mark.parametrize("place", [0, 1, 2])
def test_what_is_declared_in_one_cell_is_used_in_all(cells: CellCluster, place: int) -> None:
    client = cells[place].client()
    assert client.ask(ExchangeDeclare("logs", "topic", durable=True)) == ExchangeDeclareOk()
    client.declare("q", durable=True)
    assert client.ask(QueueBind("q", "logs", "a.#")) == QueueBindOk()
    for number, cell in enumerate(cells.cells):
        publisher = cell.client()
        publisher.feed(publisher.published("logs", f"a.{number}", b"%d" % number))
    for cell in cells.cells:
        got = cell.client().get("q", no_ack=True)
        assert isinstance(got, Content)
    assert cells[place].queue("q").ready == 0
    assert client.ask(QueueUnbind("q", "logs", "a.#")) == QueueUnbindOk()
    assert all(not cell.vhost.bindings.of_source("logs") for cell in cells.cells)
    assert client.ask(ExchangeDelete("logs")) == ExchangeDeleteOk()
    assert all("logs" not in cell.vhost.exchanges for cell in cells.cells)


def test_equivalence_is_checked_against_the_definition_of_any_cell(cells: CellCluster) -> None:
    cells[1].client().declare("q", durable=True)
    other = cells[2].client()
    assert other.declare("q", durable=True).queue == "q"
    other.send(QueueDeclare("q", durable=False))
    code, text = other.error()
    assert code == 406
    assert "inequivalent arg 'durable'" in text


def test_two_cells_that_declare_the_same_name_at_once_get_one_queue(cells: CellCluster) -> None:
    wires = [wire for wire in cells.wires if isinstance(wire, DefinitionWire)]
    for wire in wires:
        wire.is_held = True
    clients = [cells[place].client() for place in (1, 2)]
    for client, durable in zip(clients, (True, False), strict=True):
        client.send(QueueDeclare("q", durable=durable))
    for wire in wires:
        wire.is_held = False
    cells.rest()
    answers = [client.heard() for client in clients]
    assert answers[0] == [QueueDeclareOk("q", 0, 0)]
    (refusal,) = answers[1]
    assert isinstance(refusal, ChannelClose)
    assert "inequivalent arg 'durable'" in refusal.reply_text
    assert where(cells, "q") == ["RemoteQueue", "ClassicQueue", "RemoteQueue"]


@pytest.mark.parametrize("by", [0, 1, 2])
def test_a_queue_is_deleted_from_any_cell(cells: CellCluster, by: int) -> None:
    cells[1].client().declare("q", durable=True)
    cells[0].client().publish("q", b"1", b"2")
    assert cells[by].client().ask(QueueDelete("q")) == QueueDeleteOk(2)
    assert where(cells, "q") == ["-"] * 3


def test_a_queue_in_use_in_another_cell_is_not_deleted(cells: CellCluster) -> None:
    cells[1].client().declare("q")
    cells[2].client().consume("q")
    client = cells[0].client()
    client.send(QueueDelete("q", if_unused=True))
    assert client.error()[0] == 406
    assert where(cells, "q") == ["RemoteQueue", "ClassicQueue", "RemoteQueue"]


def test_generated_names(cells: CellCluster) -> None:
    client = cells[1].client()
    answer = client.ask(QueueDeclare(exclusive=True))
    assert isinstance(answer, QueueDeclareOk)
    assert answer.queue.startswith("amq.gen-")
    cells[2].client().publish(answer.queue, b"hello")
    got = client.get(answer.queue)
    assert got is not None
    assert got.body == b"hello"


def test_exclusive_queues_go_with_their_connection_and_are_locked_elsewhere(cells: CellCluster) -> None:
    client = cells[1].client()
    client.declare("mine", exclusive=True)
    assert client.declare("mine", exclusive=True).queue == "mine"
    stranger = cells[2].client()
    stranger.send(QueueDeclare("mine", passive=True))
    assert stranger.error()[0] == 405
    client.vanish()
    cells.rest()
    assert where(cells, "mine") == ["-"] * 3


def test_an_exclusive_queue_whose_client_has_left_before_the_answer_is_nowhere(cells: CellCluster) -> None:
    client = cells[1].client()
    with cells.definitions_held(1):
        client.send(QueueDeclare("mine", exclusive=True))
        client.vanish()
    assert where(cells, "mine") == ["-"] * 3


def test_auto_delete_queues_go_with_their_last_consumer_wherever_it_is(cells: CellCluster) -> None:
    cells[1].client().declare("q", auto_delete=True)
    consumer = cells[2].client()
    consumer.consume("q")
    consumer.send(BasicCancel("tag", nowait=True))
    cells.rest()
    assert where(cells, "q") == ["-"] * 3


def test_users_permissions_vhosts_policies_and_parameters_follow(cells: CellCluster) -> None:
    first = cells[0].broker
    first.add_vhost("v", max_queues=3)
    first.users.add("anna", tags=["monitoring"])
    first.permissions.set("anna", "v", "a", "b", "c")
    first.permissions.set_topic("anna", "v", "amq.topic", "x", "y")
    first.policies.set("v", "p", pattern="^q", definition={"max-length": 5}, apply_to="queues", priority=1)
    first.parameters.put("name", {"a": 1})
    first.vhost("v").schemas.add("s", Schema("json", "a INT"), "full")
    first.vhost("v").schemas.add("s", Schema("json", "a INT, b INT"), "full")
    first.vhost("v").schemas.delete_version("s", 1)
    cells.rest()
    for cell in cells.cells[1:]:
        broker = cell.broker
        assert broker.vhosts["v"].max_queues == 3
        assert broker.users.get("anna").tags == ("monitoring",)  # type: ignore[union-attr]
        assert broker.permissions.get("anna", "v") == first.permissions.get("anna", "v")
        assert broker.permissions.get_topic("anna", "v", "amq.topic") is not None
        assert [policy.name for policy in broker.policies.list("v")] == ["p"]
        assert broker.parameters.get("name") == {"a": 1}
        assert broker.vhosts["v"].schemas.list() == first.vhosts["v"].schemas.list()
        assert broker.vhosts["v"].schemas.version("s") == (2, Schema("json", "a INT, b INT"))
        assert len(broker.vhosts["v"].parameters.names("schema-text")) == 1
    first.policies.delete("v", "p")
    first.permissions.clear("anna", "v")
    first.parameters.drop("name")
    first.users.delete("anna")
    first.delete_vhost("v")
    cells.rest()
    for cell in cells.cells[1:]:
        assert "v" not in cell.broker.vhosts
        assert cell.broker.users.get("anna") is None
        assert "name" not in cell.broker.parameters


def test_the_default_queue_type_of_a_vhost_holds_in_all_cells(cells: CellCluster) -> None:
    note_metadata(cells[0].vhost, {"description": "", "tags": [], "default_queue_type": "quorum"})
    cells.rest()
    client = cells[1].client()
    for _ in range(2):
        assert client.ask(QueueDeclare("q", durable=True)) == QueueDeclareOk("q", 0, 0)
    assert [cell.vhost.queues["q"].arguments for cell in cells.cells] == [{"x-queue-type": "quorum"}] * 3
    note_metadata(cells[0].vhost, {"description": "", "tags": []})
    cells.rest()
    assert metadata_of(cells[1].vhost) == metadata_of(cells[0].vhost) == {"description": "", "tags": []}


def test_the_first_cell_shows_the_counts_of_all_queues(cells: CellCluster) -> None:
    client = cells[1].client()
    client.declare("q")
    client.publish("q", b"1", b"2", b"3")
    client.get("q")
    reporter = cells[1].first
    assert reporter is not None
    reporter.report_counts()
    cells.rest()
    shown = cells[0].vhost.queues["q"]
    assert (shown.ready, shown.unacked) == (2, 1)
    reporter.report_counts()
    assert not any(wire.to_first for wire in cells.wires if isinstance(wire, DefinitionWire))  # nothing has changed


# ---- cells that were away


def test_a_cell_that_was_away_gets_what_it_has_missed(cells: CellCluster) -> None:
    cells[1].client().declare("old", durable=True)
    cells.isolate(cells[2])
    client = cells[1].client()
    client.ask(ExchangeDeclare("new", "fanout"))
    client.declare("q", durable=True)
    client.ask(QueueBind("q", "new", ""))
    client.ask(QueueDelete("old"))
    assert "q" not in cells[2].vhost.queues
    cells.reconnect(cells[2])
    assert where(cells, "q")[2] == "RemoteQueue"
    assert where(cells, "old")[2] == "-"
    publisher = cells[2].client()
    publisher.feed(publisher.published("new", "", b"hello"))
    assert cells[1].queue("q").ready == 1


def test_what_was_replaced_while_a_cell_was_away_is_replaced_there_with_its_bindings(cells: CellCluster) -> None:
    def declare(client: Client, kind: str, **arguments: object) -> None:
        client.ask(ExchangeDeclare("e", kind))
        client.ask(QueueDeclare("q", durable=True, arguments=arguments))
        client.ask(QueueBind("q", "e", "key"))

    client = cells[1].client()
    declare(client, "direct")
    cells.isolate(cells[2])
    client.ask(QueueDelete("q"))
    client.ask(ExchangeDelete("e"))
    declare(client, "fanout", **{"x-max-priority": 3})
    cells.reconnect(cells[2])
    assert cells[2].vhost.exchanges["e"].kind == "fanout"
    assert cells[2].vhost.queues["q"].arguments == {"x-max-priority": 3}
    publisher = cells[2].client()
    publisher.feed(publisher.published("e", "", b"hello"))
    assert cells[1].queue("q").ready == 1


def test_transient_queues_of_a_cell_survive_while_it_is_away(cells: CellCluster) -> None:
    client = cells[2].client()
    client.declare("t")
    client.declare("mine", exclusive=True)
    client.ask(QueueBind("t", "amq.fanout", ""))
    cells.isolate(cells[2])
    for name in ("t", "mine"):  # as if the first cell had been restarted
        cells[0].vhost.remove_queue(cells[0].vhost.queues[name])
    cells.rest()
    cells.reconnect(cells[2])
    assert where(cells, "t") == ["RemoteQueue", "RemoteQueue", "ClassicQueue"]
    assert where(cells, "mine")[0] == "RemoteQueue"
    assert Binding("amq.fanout", Destination("queue", "t"), "") in cells[0].vhost.bindings


def test_queues_that_disappeared_while_the_cell_was_away_are_forgotten(cells: CellCluster) -> None:
    client = cells[2].client()
    client.declare("t", auto_delete=True)
    cells.isolate(cells[2])
    cells[2].vhost.remove_queue(cells[2].vhost.queues["t"])
    assert where(cells, "t") == ["RemoteQueue", "RemoteQueue", "-"]
    cells.reconnect(cells[2])
    assert where(cells, "t") == ["-"] * 3


def test_declarations_wait_for_the_first_cell_and_then_fail(cells: CellCluster) -> None:
    cells.isolate(cells[2])
    patient, client = cells[2].client(), cells[2].client()
    client.send(QueueDeclare("q"))
    cells[2].advance(9)
    assert client.heard() == []
    cells[2].advance(2)
    assert client.error() == (
        406,
        "PRECONDITION_FAILED - the first cell, which changes the definitions of all cells, is down or inaccessible",
    )
    patient.send(QueueDeclare("p"))
    cells.reconnect(cells[2])
    assert patient.heard() == [QueueDeclareOk("p", 0, 0)]


def test_the_limits_of_a_virtual_host_hold_where_something_is_declared(cells: CellCluster) -> None:
    """Cells that declare at the same time may exceed them together."""
    cells[0].broker.limit_vhost("/", max_queues=2, max_connections=None)
    for cell in cells.cells:
        cell.vhost.bounds = Bounds(exchange_bindings=1)
    cells.rest()
    with cells.definitions_held(1), cells.definitions_held(2):
        for place in (1, 2):  # not requested by a client
            for number in (1, 2):
                cells[place].vhost.declare_queue(f"q{place}{number}", durable=True)
            cells[place].vhost.bind(Binding("amq.fanout", Destination("queue", f"q{place}1"), ""))
    names = {"q11", "q12", "q21", "q22"}
    assert [cell.vhost.queues.keys() for cell in cells.cells] == [names] * 3
    for cell in cells.cells:
        assert {each.destination.name for each in cell.vhost.bindings.of_source("amq.fanout")} == {"q11", "q21"}
        with pytest.raises(PreconditionFailed, match="limit"):
            cell.vhost.declare_queue("more")


@pytest.mark.parametrize("is_done", [True, False])
def test_declarations_whose_answer_is_lost_are_made_again(cells: CellCluster, is_done: bool) -> None:
    """As when the leader of the first cell is killed, before or after it has made the change."""
    (wire,) = (each for each in cells.wires if isinstance(each, DefinitionWire) and each.other is cells[2])
    client = cells[2].client()
    wire.is_held = True
    client.send(QueueDeclare("q", durable=True))
    assert client.heard() == []
    if is_done:
        assert cells[0].service is not None
        cells[0].service.handle("c3", wire.to_first.popleft(), lambda _: None)
    cells.isolate(cells[2])
    cells[2].advance(5)
    assert client.heard() == []
    cells.reconnect(cells[2])
    assert client.heard() == [QueueDeclareOk("q", 0, 0)]
    assert where(cells, "q") == ["RemoteQueue", "RemoteQueue", "ClassicQueue"]


@pytest.mark.parametrize(
    "method", [QueueDeclare("amq.own"), ExchangeDeclare("amq.own", "direct")], ids=lambda m: m.NAME
)
def test_reserved_names_are_refused_in_all_cells(cells: CellCluster, method: Method) -> None:
    for cell in cells.cells:
        client = cell.client()
        client.send(method)
        assert client.error()[0] == 403


def test_what_a_user_may_not_do_is_refused_in_his_cell(cells: CellCluster) -> None:
    cells[0].user("anna", allowed="none")
    cells.rest()
    client: Client = cells[1].client("anna")
    client.send(QueueDeclare("q"))
    assert client.error()[0] == 403
    assert where(cells, "q") == ["-"] * 3


def test_an_internal_error_of_the_first_cell_is_the_answer(
    cells: CellCluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """If it ended the connection of the cell, the request would be made again, and end it again."""

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a bug")

    client = cells[1].client()
    with monkeypatch.context() as patched:
        patched.setattr(DefinitionService, "_put", fail)
        client.send(QueueDeclare("q"))
    assert client.error() == (541, "INTERNAL_ERROR - unexpected RuntimeError; the broker's log has the details")
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == ["a bug"]
    cells[1].client().declare("q")
    assert where(cells, "q") == ["RemoteQueue", "ClassicQueue", "RemoteQueue"]
