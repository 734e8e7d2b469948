"""CWE-770, allocation of resources without limits: the jobs of one virtual host do not take the places of others."""

from __future__ import annotations

import leveret
from leveret.api.queue_jobs import MOST_RUNNING_OF_VHOST
from tests.support.http_api import QUIET, HttpApi

SLOW = {"kind": "redrive", "rate": 0.001}
DEAD_LETTERED = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


def test_a_virtual_host_full_of_jobs_leaves_room_for_others() -> None:
    with leveret.Broker(QUIET) as broker:
        core, api = broker.node.broker, HttpApi(broker.http_url)
        broker.call(lambda: core.add_vhost("eve"))
        broker.call(lambda: core.permissions.set("guest", "eve", ".*", ".*", ".*"))
        vhost = broker.vhost("eve")
        vhost.declare_queue("dead")
        vhost.declare_queue("work", arguments=DEAD_LETTERED)
        for _ in range(3 * MOST_RUNNING_OF_VHOST):
            vhost.publish("", "work", b"")
            refused = vhost.get("work")
            assert refused is not None
            vhost.nack(refused.delivery_tag, requeue=False)
        begun = [api.post("/api/queues/eve/dead/jobs", SLOW) for _ in range(MOST_RUNNING_OF_VHOST + 1)]
        assert [status for status, _ in begun] == [202] * MOST_RUNNING_OF_VHOST + [409]
        assert "vhost 'eve'" in begun[-1][1]["reason"]
        broker.vhost().declare_queue("work")
        assert api.post("/api/queues/%2F/work/jobs", {"kind": "delete"})[0] == 202
