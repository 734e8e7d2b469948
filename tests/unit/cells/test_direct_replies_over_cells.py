"""Direct reply-to between cells: the requester is in one, the responder in another."""

from __future__ import annotations

import pytest

from leveret.cells.home_cell import PATIENCE
from leveret.queues.direct_reply import REPLY_TO
from leveret.session.run_frames import MOST_RUN
from leveret.wire.methods import (
    BasicAck,
    BasicNack,
    BasicReturn,
    ConfirmSelect,
    QueueDeclare,
    QueueDeclareOk,
    TxCommit,
    TxCommitOk,
    TxSelect,
)
from tests.support.cell_cluster import CellCluster, CellHarness
from tests.support.peer_pair import Client, Content


@pytest.fixture
def cells() -> CellCluster:
    cells = CellCluster(3)
    cells[1].client().declare("requests")
    return cells


def requester_in(cell: CellHarness) -> Client:
    client = cell.client()
    client.consume(REPLY_TO, no_ack=True)
    return client


def request_of(requester: Client, responder: Client) -> str:
    """The name to reply to, as the responder gets it."""
    requester.publish("requests", b"request", reply_to=REPLY_TO)
    got = responder.get("requests", no_ack=True)
    assert got is not None
    assert got.properties.reply_to is not None
    return got.properties.reply_to


def spoken(client: Client) -> list[object]:
    """Replies, returned messages with their reply code, and other methods by their names."""
    return [
        ((what.method.reply_code, what.body) if isinstance(what.method, BasicReturn) else what.body)
        if isinstance(what, Content)
        else what.NAME
        for what in client.heard()
    ]


def confirming(cell: CellHarness) -> Client:
    client = cell.client()
    client.ask(ConfirmSelect())
    return client


PLACES = pytest.mark.parametrize(("near", "far"), [(0, 1), (1, 0), (1, 2), (2, 2)])


@PLACES
def test_replies_arrive_in_their_order(cells: CellCluster, near: int, far: int) -> None:
    requester, responder = requester_in(cells[near]), confirming(cells[far])
    name = request_of(requester, responder)
    responder.publish(name, b"1", b"2", correlation_id="a")
    responder.publish(name, b"3", delivery_mode=2)
    replies = [what for what in requester.heard() if isinstance(what, Content)]
    assert [reply.body for reply in replies] == [b"1", b"2", b"3"]
    assert [reply.properties.correlation_id for reply in replies] == ["a", "a", None]
    assert {"basic.ack"} == set(spoken(responder))


@PLACES
def test_a_mandatory_reply_is_not_returned(cells: CellCluster, near: int, far: int) -> None:
    requester, responder = requester_in(cells[near]), confirming(cells[far])
    name = request_of(requester, responder)
    responder.feed(responder.published("", name, b"reply", mandatory=True))
    assert (spoken(responder), spoken(requester)) == (["basic.ack"], [b"reply"])


@PLACES
@pytest.mark.parametrize("mandatory", [True, False])
def test_a_reply_to_a_requester_that_has_gone(cells: CellCluster, near: int, far: int, mandatory: bool) -> None:
    """Returned if it is mandatory, dropped otherwise, and confirmed in both cases."""
    requester, responder = requester_in(cells[near]), confirming(cells[far])
    name = request_of(requester, responder)
    responder.publish(name, b"first")
    requester.vanish()
    responder.heard()
    responder.feed(responder.published("", name, b"late", mandatory=mandatory))
    assert spoken(responder) == [*([(312, b"late")] if mandatory else []), "basic.ack"]
    returned = [cell.vhost.counters_of("").returned for cell in cells.cells]
    assert returned == [int(mandatory and cell is cells[far]) for cell in cells.cells]


def test_one_that_has_gone_does_not_hold_up_the_others(cells: CellCluster) -> None:
    """Replies of one tick to several requesters, one of which has gone."""
    responder = confirming(cells[1])
    requesters = [requester_in(cells[0]), requester_in(cells[0]), requester_in(cells[2])]
    names = [request_of(each, responder) for each in requesters]
    requesters[1].vanish()
    replies = [(name, b"%d %d" % (number, turn)) for turn in (1, 2) for number, name in enumerate(names)]
    responder.feed(b"".join([responder.published("", *reply, mandatory=True) for reply in replies]))
    assert spoken(requesters[0]) == [b"0 1", b"0 2"]
    assert spoken(requesters[2]) == [b"2 1", b"2 2"]
    outcomes = responder.heard()
    assert [what.body for what in outcomes if isinstance(what, Content)] == [b"1 1", b"1 2"]
    assert not [what for what in outcomes if isinstance(what, BasicNack)]
    confirmed = {tag for what in outcomes if isinstance(what, BasicAck) for tag in range(1, what.delivery_tag + 1)}
    assert confirmed == set(range(1, 7))


def test_replies_without_confirms(cells: CellCluster) -> None:
    responder = cells[1].client()
    requesters = [requester_in(cells[0]), requester_in(cells[0])]
    names = [request_of(each, responder) for each in requesters]
    responder.feed(b"".join([responder.published("", names[each % 2], b"%d" % each) for each in range(6)]))
    assert [spoken(each) for each in requesters] == [[b"0", b"2", b"4"], [b"1", b"3", b"5"]]
    requesters[0].vanish()
    responder.publish(names[0], b"late")
    responder.publish(names[1], b"6")
    assert (spoken(requesters[1]), spoken(responder)) == ([b"6"], [])


def test_replies_of_a_transaction(cells: CellCluster) -> None:
    responder, requester, gone = cells[1].client(), requester_in(cells[0]), requester_in(cells[0])
    names = [request_of(each, responder) for each in (requester, gone)]
    gone.vanish()
    responder.ask(TxSelect())
    for name in names:
        responder.publish(name, b"reply")
    assert spoken(requester) == []
    assert responder.ask(TxCommit()) == TxCommitOk()
    assert spoken(requester) == [b"reply"]


def test_a_large_reply(cells: CellCluster) -> None:
    requester, responder = requester_in(cells[0]), confirming(cells[1])
    name = request_of(requester, responder)
    large = bytes(range(256)) * (MOST_RUN // 256 + 1)
    responder.publish(name, b"before", large, b"behind")
    assert spoken(requester) == [b"before", large, b"behind"]


def test_a_reply_and_its_copy_for_another_requester(cells: CellCluster) -> None:
    requesters, responder = [requester_in(cells[0]), requester_in(cells[2])], confirming(cells[1])
    one, other = [request_of(each, responder) for each in requesters]
    responder.publish(one, b"reply", headers={"CC": [other]})
    assert [spoken(each) for each in requesters] == [[b"reply"], [b"reply"]]


def test_a_responder_can_look_whether_the_requester_is_there(cells: CellCluster) -> None:
    requester, responder = requester_in(cells[0]), cells[1].client()
    name = request_of(requester, responder)
    assert responder.ask(QueueDeclare(name, passive=True)) == QueueDeclareOk(name, 0, 1)
    requester.vanish()
    responder.send(QueueDeclare(name, passive=True))
    assert responder.error() == (404, f"NOT_FOUND - no queue '{name}' in vhost '/'")
    elsewhere = cells[2].client()
    elsewhere.send(QueueDeclare(f"{REPLY_TO}.c9.token", passive=True))
    assert elsewhere.error()[0] == 404


def test_replies_wait_for_the_link_as_other_publishes_do(cells: CellCluster) -> None:
    requester, responder = requester_in(cells[0]), confirming(cells[1])
    name = request_of(requester, responder)
    cells.cut(cells[0], cells[1])
    responder.publish(name, b"1")
    responder.publish(name, b"2")
    looking = cells[1].client()
    looking.send(QueueDeclare(name, passive=True))
    assert (spoken(responder), looking.heard()) == ([], [])
    for here, there in ((0, 1), (1, 0)):
        cells.connect_queues(cells[here], cells[there])
    cells.rest()
    assert spoken(requester) == [b"1", b"2"]
    assert set(spoken(responder)) == {"basic.ack"}
    assert looking.heard() == [QueueDeclareOk(name, 0, 1)]


def test_replies_to_a_cell_that_stays_away_are_refused(cells: CellCluster) -> None:
    requester, responder = requester_in(cells[0]), confirming(cells[1])
    name = request_of(requester, responder)
    cells.cut(cells[0], cells[1])
    responder.publish(name, b"1")
    cells.advance(PATIENCE + 1)
    assert spoken(responder) == ["basic.nack"]


def test_many_requesters_share_the_channels_of_a_link(cells: CellCluster) -> None:
    responder = confirming(cells[1])
    home = cells[1].homes.of("/", "c1")
    opened: set[tuple[int, int]] = set()
    for number in range(50):
        requester = requester_in(cells[0])
        name = request_of(requester, responder)
        responder.publish(name, b"%d" % number)
        assert spoken(responder) == ["basic.ack"]
        assert responder.ask(QueueDeclare(name, passive=True)) == QueueDeclareOk(name, 0, 1)
        assert spoken(requester) == [b"%d" % number]
        requester.vanish()
        opened.add((len(home.publishing._channels), len(home.consuming._channels)))
    assert len(opened) == 1
    assert not cells[0].vhost.reply_queues


def test_names_have_the_cell_of_the_requester_if_there_are_several(cells: CellCluster) -> None:
    vhost = cells[1].vhost
    requester_in(cells[1])
    (name,) = vhost.reply_queues
    assert name.startswith(f"{REPLY_TO}.c2.")
    vhost.live_in("c2")  # in this cell only
    requester_in(cells[1])
    (_, name) = vhost.reply_queues
    assert "." not in name.removeprefix(f"{REPLY_TO}.")
