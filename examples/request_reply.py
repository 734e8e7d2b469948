"""Requests and replies over a queue, many at once: `python examples/request_reply.py [URL]`.

The service replies to the `reply_to` of the request, with its `correlation_id`. Without a URL it starts a broker.
"""

import asyncio
import sys

import leveret
from leveret.client.jms import AckMode, Connection, ConnectionFactory, Message, Queue, TextMessage

PRICES = {"carrots": "2.50", "lettuce": "1.20", "dandelions": "0.80"}


async def serve(connection: Connection) -> None:
    session = await connection.create_session(AckMode.AUTO)
    producer = await session.create_producer()

    async def answer(request: Message) -> None:
        assert isinstance(request, TextMessage)
        answer = session.create_text_message(PRICES.get(request.text, "not for sale"))
        answer.correlation_id = request.correlation_id
        await producer.send(answer, request.reply_to)

    await session.create_consumer(Queue("prices"), listener=answer)


async def main(url: str) -> None:
    async with await ConnectionFactory(url).create_connection() as connection:
        await connection.start()
        await serve(connection)
        session = await connection.create_session()
        async with await session.create_requestor(Queue("prices")) as requestor:
            goods = [*PRICES, "foxes"]
            questions = (requestor.request(session.create_text_message(name), timeout=10) for name in goods)
            for name, answer in zip(goods, await asyncio.gather(*questions), strict=True):
                print(f"{name}: {answer.body}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(main(sys.argv[1]))
    else:
        with leveret.Broker() as broker:
            asyncio.run(main(broker.amqp_url))
