"""Consume and publish in one transaction: `python examples/transacted_session.py [URL]`.

Each order becomes a bill. One commit acknowledges the order and sends the bill: after a crash, or a rollback, there is
either the order or the bill, never both. Without a URL it starts a broker.
"""

import sys

import leveret
from leveret.client.jms.blocking import AckMode, ConnectionFactory, Queue, RedeliveryPolicy

ORDERS, BILLS = Queue("shop.orders"), Queue("shop.bills")


def main(url: str) -> None:
    factory = ConnectionFactory(url, redelivery=RedeliveryPolicy(initial_delay=0))
    with factory.create_connection() as connection:
        connection.start()
        session = connection.create_session(AckMode.SESSION_TRANSACTED)
        orders, sending = session.create_consumer(ORDERS), session.create_producer()
        for goods in ("carrots", "lettuce"):
            sending.send(session.create_text_message(goods), ORDERS)
        session.commit()
        done = 0
        while done < 2:
            order = orders.receive(timeout=10)
            assert order is not None
            sending.send(session.create_text_message(f"bill for {order.body}"), BILLS)
            if order.body == "lettuce" and not order.redelivered:
                print("no lettuce just now: roll back")
                session.rollback()
            else:
                session.commit()
                done += 1
        with connection.create_session() as reading:
            bills = reading.create_consumer(BILLS)
            for _ in range(2):
                bill = bills.receive(timeout=10)
                print(bill.body if bill else "lost")
            print("no more" if bills.receive_no_wait() is None else "one too many")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with leveret.Broker() as broker:
            main(broker.amqp_url)
