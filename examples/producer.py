"""Send orders to a queue: `python examples/producer.py [URL] [HOW MANY]`, with `consumer.py` in another terminal.

`send` returns when the broker has confirmed the message.
"""

import sys

from leveret.client.jms.blocking import ConnectionFactory, Queue


def main(url: str, count: int) -> None:
    with ConnectionFactory(url).create_connection() as connection:
        session = connection.create_session()
        producer = session.create_producer(Queue("orders"))
        for number in range(1, count + 1):
            message = session.create_map_message({"order": number, "carrots": 2 * number})
            message.properties["region"] = "eu" if number % 2 else "us"  # consumers can select by it
            producer.send(message)
            print(f"sent order {number}")


if __name__ == "__main__":
    given = sys.argv[1:]
    main(given[0] if given else "amqp://localhost", int(given[1]) if len(given) > 1 else 10)
