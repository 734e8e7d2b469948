"""Consume the orders that `producer.py` sends: `python examples/consumer.py [URL] [HOW MANY] [SELECTOR]`.

A message is acknowledged when `handle` has returned. If it raises, the message is redelivered, and after six more
attempts dead-lettered, if a policy of the broker sets a dead-letter strategy for this queue. Try the
selector "region = 'eu'".
"""

import sys
import threading

from leveret.client.jms.blocking import AckMode, ConnectionFactory, MapMessage, Message, Queue


def main(url: str, count: int, selector: str) -> None:
    handled = threading.Semaphore(0)

    def handle(message: Message) -> None:
        assert isinstance(message, MapMessage)
        print(f"order {message['order']}: {message['carrots']} carrots for {message.properties['region']}", flush=True)
        handled.release()

    with ConnectionFactory(url).create_connection() as connection:
        session = connection.create_session(AckMode.AUTO)
        session.create_consumer(Queue("orders"), selector, prefetch=1, listener=handle)
        connection.start()
        for _ in range(count):
            handled.acquire()


if __name__ == "__main__":
    given = sys.argv[1:]
    main(given[0] if given else "amqp://localhost", int(given[1]) if len(given) > 1 else 10, " ".join(given[2:]))
