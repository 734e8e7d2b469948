// First steps, shown while no Spark query has reported.

import { copyButton } from "../clipboard.js";
import { h } from "../dom.js";
import { emptyCard } from "../layout.js";

export function sparkSteps(user) {
  const login = user.name === "guest" ? "" : `, "username": ${JSON.stringify(user.name)}`;
  const where = `{"endpoint": "${location.origin}"${login}}`;
  const code = [
    `broker = ${where}`,
    "spark.streams.addListener(LeveretListener(broker))",
    'orders = spark.readStream.format("leveret").options(**broker, queue="orders", startingOffsets="earliest").load()',
    'orders.writeStream.format("console").start()',
  ].join("\n");
  return emptyCard(
    "No Spark queries yet: read a stream or a queue",
    h(
      "p",
      {},
      "Spark reads queues and streams as a streaming source. The listener reports the progress of each query. ",
      h("code", {}, "pip install 'leveret[spark]'"),
      ", then in a Spark session:",
    ),
    h("pre", { tabindex: "0" }, h("span", { class: "faint" }, "from leveret.spark import LeveretListener\n\n"), code),
    user.name !== "guest" &&
      h(
        "p",
        { class: "faint" },
        "The password is read from LEVERET_PASSWORD, or from the file named by the option credentialsFile.",
      ),
    h(
      "div",
      { class: "actions" },
      copyButton(`from leveret.spark import LeveretListener\n\n${code}\n`),
      h("a", { class: "button", href: "#/streams" }, "Go to streams"),
    ),
  );
}
