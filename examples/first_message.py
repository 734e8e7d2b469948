"""A first message: `python examples/first_message.py [amqp://guest:guest@localhost/]`.

Without a URL it starts a broker in this process.
"""

import sys

import pika

import leveret


def main(url: str) -> None:
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.queue_declare("hello", auto_delete=True)
        channel.basic_publish(exchange="", routing_key="hello", body=b"Hello, Leveret!")
        for method, _, body in channel.consume("hello"):
            print(body.decode())
            channel.basic_ack(method.delivery_tag)
            break
        channel.cancel()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with leveret.Broker() as broker:
            main(broker.amqp_url)
