"""Tasks shared by several workers, none lost when a worker fails: `python examples/work_queue.py [URL]`.

With `prefetch_count=1` a worker gets its next task only after it acknowledged the previous one, so a slow worker gets
fewer. If a worker's connection is lost, its unacknowledged task is redelivered to another worker. Without a URL it
starts a broker.
"""

import queue
import sys
import threading

import pika

import leveret

Results = queue.SimpleQueue[tuple[str, str, bool]]  # worker, task, redelivered
TASKS = [f"task {number}" for number in range(1, 7)]


def work(name: str, url: str, results: Results, fails: bool) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.basic_qos(prefetch_count=1)
    for method, _, body in channel.consume("tasks", inactivity_timeout=0.3):
        if method is None:
            break  # nothing left to do
        if fails:
            connection.close()  # without an ack
            return
        results.put((name, body.decode(), method.redelivered))
        channel.basic_ack(method.delivery_tag)
    channel.cancel()
    connection.close()


def main(url: str) -> None:
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.queue_declare("tasks", durable=True)
        channel.confirm_delivery()  # each publish returns when the broker has confirmed it
        for task in TASKS:
            channel.basic_publish("", "tasks", task.encode(), pika.BasicProperties(delivery_mode=2))
        results: Results = queue.SimpleQueue()
        work("unlucky", url, results, True)
        workers = [threading.Thread(target=work, args=(name, url, results, False)) for name in ("anna", "boris")]
        for worker in workers:
            worker.start()
        done = sorted((results.get(timeout=10) for _ in TASKS), key=lambda result: result[1])
        for worker in workers:
            worker.join()
        channel.queue_delete("tasks")
    for _, task, again in done:
        print(f"{task} done" + (" at the second attempt" if again else ""))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with leveret.Broker() as broker:
            main(broker.amqp_url)
