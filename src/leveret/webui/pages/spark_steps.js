// What to do first, where no Spark query has been seen yet.

import { copyButton } from "../clipboard.js";
import { h } from "../dom.js";

export function sparkSteps(user) {
  const where = `{"endpoint": "${location.origin}"${user.name === "guest" ? "" : `, "username": ${JSON.stringify(user.name)}`}}`;
  const code = [
    `broker = ${where}`,
    "spark.streams.addListener(LeveretListener(broker))",
    'orders = spark.readStream.format("leveret").options(**broker, queue="orders", startingOffsets="earliest").load()',
    'orders.writeStream.format("console").start()',
  ].join("\n");
  return h(
    "div",
    { class: "card first" },
    h("h2", {}, "No Spark query yet: read a stream or a queue"),
    h(
      "p",
      {},
      "Spark reads from here as from a table that grows. The listener tells this page how each query is doing. ",
      h("code", {}, "pip install 'leveret[spark]'"),
      ", then in a session of Spark:",
    ),
    h("pre", { tabindex: "0" }, h("span", { class: "faint" }, "from leveret.spark import LeveretListener\n\n"), code),
    user.name !== "guest" &&
      h(
        "p",
        { class: "faint" },
        "The password comes from LEVERET_PASSWORD, or a file that the option credentialsFile names.",
      ),
    h(
      "div",
      { class: "actions" },
      copyButton(`from leveret.spark import LeveretListener\n\n${code}\n`),
      h("a", { class: "button", href: "#/streams" }, "Look at the streams"),
    ),
  );
}
