"""A broker inside this program, used without a connection: `python examples/embedded.py`.

The calls work from any thread. Any AMQP client can connect to `broker.amqp_url` at the same time.
"""

import queue

import leveret
from leveret.broker.local import Delivered


def main() -> None:
    with leveret.Broker() as broker:
        shop = broker.vhost("/")
        shop.declare_exchange("orders", "topic")
        shop.declare_queue("paid")
        shop.bind("paid", "orders", "*.paid")

        done: queue.SimpleQueue[str] = queue.SimpleQueue()

        def handle(order: Delivered) -> None:  # runs in a thread of the broker
            shop.ack(order.delivery_tag)
            done.put(f"{order.routing_key}: {order.body.decode()}")

        shop.consume("paid", handle)
        shop.publish("orders", "eu.paid", b"two carrots")
        shop.publish("orders", "eu.cancelled", b"not routed to any queue")
        shop.publish("orders", "us.paid", b"one lettuce")
        print(done.get(timeout=5))
        print(done.get(timeout=5))

        # Message time can be moved: no test has to wait for a TTL.
        shop.declare_queue("offers", arguments={"x-message-ttl": 3_600_000})
        shop.publish("", "offers", b"half price for an hour")
        broker.clock.advance(3_600)
        print(f"offers left: {shop.message_count('offers')}")


if __name__ == "__main__":
    main()
