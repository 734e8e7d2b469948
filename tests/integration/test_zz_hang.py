from tests.integration.test_durable_embedded import *

def test_a_publisher_that_waits_for_the_disk_is_told_when_the_broker_stops(path):
    broker = leveret.Broker(settings(path, ))
    broker = leveret.Broker(leveret.Settings(data_dir=path, amqp_port=0, http_port=None, stomp_port=None, shutdown_timeout=0.5)).start()
    vhost = broker.vhost()
    vhost.declare_queue("q", durable=True)
    disk = SlowDisk(broker)
    publishing = Working(lambda: vhost.publish("", "q", b"m", KEPT))
    assert disk.asked.wait(PATIENCE)
    stopping = Working(broker.stop)
    r = stopping.result()
    print("stop", r)
    try:
        print("publish", repr(publishing.result()))
    finally:
        disk.let.set()

def test_a_getter_that_waits_for_the_disk_is_told_when_the_broker_stops(path):
    with leveret.Broker(settings(path)) as broker:
        vhost = broker.vhost()
        vhost.declare_queue("q", durable=True)
        for number in range(10):
            vhost.publish("", "q", b"%d" % number + b"x" * (1 << 20), KEPT)
    broker = leveret.Broker(settings(path)).start()
    let = hold_reader(broker)
    store = broker.node.store
    def fail(*a): raise OSError(5, "Input/output error")
    store.disk.read = fail
    vhost, queue = broker.vhost(), inside(broker, "q")
    while not broker.call(lambda: queue.needs_load):
        assert vhost.get("q", auto_ack=True) is not None
    getting = Working(lambda: vhost.get("q"))
    while not broker.call(lambda: queue.pager is not None and queue.pager._waiting):
        assert not getting.is_over
    let.set()
    stopping = Working(broker.stop)
    print("stop", stopping.result())
    print("get", repr(getting.result()))
