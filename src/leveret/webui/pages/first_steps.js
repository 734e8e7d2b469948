// First steps, shown while there are no queues.

import { copyButton } from "../clipboard.js";
import { fill, h } from "../dom.js";
import { emptyCard } from "../layout.js";
import { vhostNames } from "../vhosts.js";

/** `makeQueue` is called by the button. Without a virtual host, the code uses / or else the first one of the user. */
export function firstSteps(user, overview, makeQueue, vhost = "") {
  const place = h("div", {});
  fill(place, steps(user, overview, makeQueue, vhost));
  if (!vhost)
    vhostNames().then((names) => {
      if (names.length && !names.includes("/")) fill(place, steps(user, overview, makeQueue, names[0]));
    });
  return place;
}

function steps(user, overview, makeQueue, vhost) {
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
