// Dialog that moves a queue to another cell.

import { path as at, get, post } from "../api.js";
import { h } from "../dom.js";
import { plural } from "../format.js";
import { choice, dialog, field, form } from "../forms.js";
import { notify, notifyError } from "../notices.js";

const POLL = 500; // milliseconds between two requests for the state of the move

export async function moveDialog(address, name, queue, whenDone) {
  const { home } = queue;
  const cells = await get("/api/cells").catch(notifyError);
  if (!cells) return;
  const others = cells.filter((cell) => cell.state === "running" && cell.name !== home).map((cell) => cell.name);
  if (!others.length) {
    notify("There is no other cell to move the queue to.");
    return;
  }
  const content = form(
    [
      h("p", {}, `The queue is in cell ${home}. Deliveries pause during the move; clients stay connected.`),
      field("Cell", choice("to", others, others[0])),
    ],
    "Move queue",
    async (given) => {
      const { id } = await post(`${address}/move`, { to: given.get("to") });
      notify(`Queue ${name} is being moved to cell ${given.get("to")}.`);
      follow(id, name, whenDone).catch(notifyError);
    },
  );
  dialog(`Move queue ${name}`, content);
}

async function follow(id, name, whenDone) {
  let move = await get(at`/api/queue-moves/${id}`);
  while (move.ended === null) {
    await new Promise((resolve) => setTimeout(resolve, POLL));
    move = await get(at`/api/queue-moves/${id}`);
  }
  if (move.state === "done") notify(`Queue ${name} moved to cell ${move.to} with ${plural(move.copied, "message")}.`);
  else notifyError(new Error(`Queue ${name} stays in cell ${move.source}: ${move.reason}`));
  whenDone();
}
