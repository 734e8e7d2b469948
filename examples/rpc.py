"""Request and reply with direct reply-to: `python examples/rpc.py [URL]`.

The caller consumes from `amq.rabbitmq.reply-to` and names it in `reply_to`; the reply goes directly to its channel,
and no reply queue has to be declared. Without a URL it starts a broker.
"""

import sys
import threading
import uuid

import pika

import leveret

REPLY_TO = "amq.rabbitmq.reply-to"


def serve(url: str, ready: threading.Event, requests: int) -> None:
    """Answer this many requests, each with the square of its number."""
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.queue_declare("squares", auto_delete=True)
        ready.set()
        for method, asked, body in channel.consume("squares"):
            answer = pika.BasicProperties(correlation_id=asked.correlation_id)
            channel.basic_publish("", asked.reply_to, str(int(body) ** 2).encode(), answer)
            channel.basic_ack(method.delivery_tag)
            requests -= 1
            if not requests:
                break
        channel.cancel()


def ask(url: str, numbers: list[int]) -> list[str]:
    """Send all requests at once; the correlation ID matches each reply to its request."""
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        answers: dict[str, str] = {}
        channel.basic_consume(
            REPLY_TO, lambda *reply: answers.update({reply[2].correlation_id: reply[3].decode()}), auto_ack=True
        )
        asked = [str(uuid.uuid4()) for _ in numbers]
        for question, number in zip(asked, numbers, strict=True):
            properties = pika.BasicProperties(reply_to=REPLY_TO, correlation_id=question)
            channel.basic_publish("", "squares", str(number).encode(), properties)
        while len(answers) < len(numbers):
            connection.process_data_events(time_limit=1)
        return [answers[question] for question in asked]


def main(url: str) -> None:
    numbers = [3, 7, 12]
    ready = threading.Event()
    server = threading.Thread(target=serve, args=(url, ready, len(numbers)))
    server.start()
    ready.wait()
    for number, answer in zip(numbers, ask(url, numbers), strict=True):
        print(f"{number} squared is {answer}")
    server.join()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with leveret.Broker() as broker:
            main(broker.amqp_url)
