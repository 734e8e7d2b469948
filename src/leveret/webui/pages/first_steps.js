// First steps, shown while there are no queues.

import { copyButton } from "../clipboard.js";
import { h } from "../dom.js";
import { emptyCard } from "../layout.js";

/** `makeQueue` is called by the button. */
export function firstSteps(user, overview, makeQueue, vhost = "") {
  const amqp = (overview?.listeners ?? []).find((one) => one.protocol === "amqp");
  const login = user.name === "guest" ? "guest:guest" : `${encodeURIComponent(user.name)}:PASSWORD`;
  const place = `${location.hostname || "localhost"}:${amqp?.port ?? 5672}`;
  const address = `amqp://${login}@${place}/${encodeURIComponent(vhost === "/" ? "" : vhost)}`;
  const code = [
    "import pika",
    "",
    `connection = pika.BlockingConnection(pika.URLParameters("${address}"))`,
    "channel = connection.channel()",
    'channel.queue_declare("hello", durable=True)',
    'channel.basic_publish("", "hello", b"Hello, Leveret")',
    "connection.close()",
  ].join("\n");
  const where = vhost ? ` in virtual host ${vhost}` : "";
  return emptyCard(
    `No queues${where} yet: send your first message`,
    h("p", {}, "Any RabbitMQ client works unchanged. With Python: ", h("code", {}, "pip install pika"), ", then"),
    h("pre", {}, code),
    h(
      "div",
      { class: "actions" },
      copyButton(code),
      h("button", { type: "button", onclick: makeQueue }, "Or add a queue here"),
    ),
  );
}
