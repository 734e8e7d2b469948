"""Two brokers behind one address, and the first one stops: `python examples/failover.py [URL URL]`.

The client reconnects automatically: queues are declared on the other broker, the consumer continues, and unconfirmed
messages are sent again. The program below only publishes and receives. Without URLs two brokers are
started, and the first is stopped halfway; with URLs, stop one of them yourself.
"""

import sys
from collections.abc import Callable

import leveret
from leveret.client import Happening, blocking


def main(urls: list[str], halfway: Callable[[], None]) -> None:
    with blocking.connect(f"failover:({','.join(urls)})?randomize=false&maxReconnectDelay=1000") as connection:
        connection.listeners.append(tell)
        channel = connection.channel()
        channel.declare_queue("parcels", durable=True)
        channel.confirm_select()
        consumer = channel.consume("parcels")
        for number in range(1, 7):
            channel.publish(f"parcel {number}".encode(), routing_key="parcels")
            parcel = consumer.next(timeout=30)
            assert parcel is not None
            parcel.ack()
            print(parcel.body.decode())
            if number == 3:
                halfway()
        consumer.cancel()
        channel.delete_queue("parcels")


def tell(happening: Happening) -> None:
    if happening.kind in ("lost", "reconnected"):
        print(f"the connection is {'lost' if happening.kind == 'lost' else 'back'}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1:], lambda: None)
    else:
        with leveret.Broker() as first, leveret.Broker() as second:
            main([first.amqp_url, second.amqp_url], first.stop)
