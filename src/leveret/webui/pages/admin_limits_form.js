// The limits of one user or one virtual host. An empty field is no limit.

import { path as at, put, remove } from "../api.js";
import { h } from "../dom.js";
import { field, form } from "../forms.js";
import { notify } from "../notices.js";

export const LIMITS = {
  user: { "max-connections": "Connections", "max-channels": "Channels" },
  vhost: { "max-connections": "Connections", "max-queues": "Queues" },
};

/** `show(limits)` fills the fields unless the user has changed them. */
export function limitsForm(kind, name) {
  let known = {};
  let changed = () => {};
  let isTouched = false;
  const inputs = Object.fromEntries(
    Object.keys(LIMITS[kind]).map((limit) => [
      limit,
      h("input", { name: limit, type: "number", min: "0", step: "1", placeholder: "no limit" }),
    ]),
  );
  const fields = Object.entries(LIMITS[kind]).map(([limit, label]) => field(label, inputs[limit]));
  const element = form([h("div", { class: "row" }, fields)], "Set limits", async (given) => {
    await setLimits(
      kind,
      name,
      known,
      Object.fromEntries(Object.keys(inputs).map((limit) => [limit, given.get(limit)])),
    );
    isTouched = false;
    notify(`Limits of ${name} updated.`);
    changed();
  });
  element.addEventListener("input", () => {
    isTouched = true;
  });
  element.classList.add("card", "limits");
  return {
    element,
    show(limits) {
      known = limits;
      if (isTouched) return;
      for (const [limit, input] of Object.entries(inputs)) input.value = limits[limit] ?? "";
    },
    whenChanged(call) {
      changed = call;
    },
  };
}

/** Sends the limits that have changed. */
async function setLimits(kind, name, known, wanted) {
  for (const [limit, text] of Object.entries(wanted)) {
    if (text === String(known[limit] ?? "")) continue;
    const address = kind === "user" ? at`/api/user-limits/${name}/${limit}` : at`/api/vhost-limits/${name}/${limit}`;
    if (text === "") await remove(address);
    else await put(address, { value: Number(text) });
  }
}
