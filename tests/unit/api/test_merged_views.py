"""Views made of the views of all cells."""

from __future__ import annotations

from leveret.api.cells.merged_views import (
    joined,
    merged_dead_letters,
    merged_exchange,
    merged_metrics,
    merged_nodes,
    merged_overview,
    merged_stream,
    merged_vhost,
)
from leveret.http.rows import Row


def details(rate: float, *samples: int) -> Row:
    return {"rate": rate, "samples": [{"sample": value, "timestamp": -place} for place, value in enumerate(samples)]}


def test_the_overview_is_summed_and_exchanges_are_counted_once() -> None:
    def overview(node: str, number: int) -> Row:
        return {
            "node": node,
            "message_stats": {"publish": number, "publish_details": details(number / 2, number, number - 1)},
            "queue_totals": {"messages": number},
            "object_totals": {"queues": number, "exchanges": 7, "connections": 1},
            "churn_rates": {"connection_created": number},
            "recv_oct": number,
            "send_oct_details": details(number, number),
            "listeners": [{"node": node}],
            "contexts": [],
        }

    merged = merged_overview([overview("a", 4), overview("b", 2)])
    assert merged["node"] == "a"
    assert merged["message_stats"] == {"publish": 6, "publish_details": details(3.0, 6, 4)}
    assert merged["object_totals"] == {"queues": 6, "exchanges": 7, "connections": 2}
    assert (merged["queue_totals"], merged["churn_rates"]) == ({"messages": 6}, {"connection_created": 6})
    assert (merged["recv_oct"], merged["send_oct_details"]) == (6, details(6, 6))
    assert [row["node"] for row in merged["listeners"]] == ["a", "b"]


def test_an_overview_without_figures_of_the_node_stays_without() -> None:
    row = {"message_stats": {}, "queue_totals": {}, "object_totals": {"exchanges": 7}}
    assert merged_overview([row, row]) == row


def test_mean_times_of_a_node_are_those_of_all_its_processes() -> None:
    rows: list[Row] = [
        {"name": "a", "role": "leader", "running": True, "mem_used": 1, "mem_alarm": False, "disk_free_alarm": False}
        | {"io_read_count": count, "io_read_time": time, "io_read_avg_time": time / count / 1000}
        | {"io_read_count_details": details(count), "io_read_time_details": details(2 * time)}
        for count, time in ((1, 5_000), (3, 3_000))
    ]
    (merged,) = merged_nodes(rows)
    assert (merged["io_read_count"], merged["io_read_time"], merged["io_read_avg_time"]) == (4, 8_000, 2.0)
    assert merged["io_read_avg_time_details"] == {"rate": 4.0}


def test_a_virtual_host_that_one_cell_does_not_have_yet_is_shown() -> None:
    def vhost(name: str, node: str, messages: int) -> Row:
        return {
            "name": name,
            "cluster_state": {node: "running"},
            "message_stats": {},
            "messages": messages,
            "recv_oct": 10 * messages,
            "recv_oct_details": details(messages),
        }

    lists = [[vhost("/", "a", 1), vhost("new", "a", 2)], [vhost("/", "b", 3)]]
    merged = joined(lists, lambda row: row["name"], merged_vhost)
    assert [(row["name"], row["messages"]) for row in merged] == [("/", 4), ("new", 2)]
    assert merged[0]["cluster_state"] == {"a": "running", "b": "running"}
    assert (merged[0]["recv_oct"], merged[0]["recv_oct_details"]) == (40, details(4))


def test_an_exchange_keeps_its_definition() -> None:
    rows = [{"name": "e", "type": "topic", "message_stats": {"publish_in": number}} for number in (1, 2)]
    assert merged_exchange(rows) == {"name": "e", "type": "topic", "message_stats": {"publish_in": 3}}


def test_dead_letters_are_complete_if_those_of_all_cells_are() -> None:
    def view(vhost: str, queue: str, is_complete: bool) -> Row:
        row = {"vhost": vhost, "name": queue}
        return {"groups": [queue], "queues": [row], "looked_at": 2, "is_complete": is_complete}

    merged = merged_dead_letters([view("/", "b", True), view("/", "a", False)])
    assert (merged["groups"], merged["examined"], merged["is_complete"]) == (["b", "a"], 4, False)
    assert merged["looked_at"] == 4
    assert [row["name"] for row in merged["queues"]] == ["a", "b"]


def partitioned(published: int, largest: float | None, *names: str) -> Row:
    return {
        "name": "s",
        "kind": "shards" if names else "super stream",
        "state": "running",
        "partitions": len(names),
        "messages": published,
        "lag": published or None,
        "largest_share": largest,
        "problem": None,
        "message_stats": {"publish": published},
        "partition_details": [{"name": name, "share": largest, "is_draining": False} for name in names],
        "reader_details": [],
    }


def test_partitions_of_several_cells_are_one_stream() -> None:
    merged = merged_stream([partitioned(0, None), partitioned(30, 1.0, "p2"), partitioned(10, 0.5, "p3", "p1")])
    assert (merged["kind"], merged["partitions"], merged["messages"], merged["lag"]) == ("shards", 3, 40, 30)
    assert merged["largest_share"] == 0.75
    found = [(each["partition"], each["name"], each["share"]) for each in merged["partition_details"]]
    assert found == [(0, "p1", 0.125), (1, "p2", 0.75), (2, "p3", 0.125)]


def test_metrics_have_a_label_and_one_head_for_each_name() -> None:
    text = '# HELP a A\n# TYPE a gauge\na %d\n# HELP b B\n# TYPE b counter\nb{queue="x{y} z"} %d\n'
    merged = merged_metrics({"c1": text % (1, 2), "c2": text % (3, 4) + "# HELP d D\n# TYPE d gauge\nd 5\n"})
    assert merged.decode().splitlines() == [
        "# HELP a A",
        "# TYPE a gauge",
        'a{cell="c1"} 1',
        'a{cell="c2"} 3',
        "# HELP b B",
        "# TYPE b counter",
        'b{cell="c1",queue="x{y} z"} 2',
        'b{cell="c2",queue="x{y} z"} 4',
        "# HELP d D",
        "# TYPE d gauge",
        'd{cell="c2"} 5',
    ]
