// Dialog that adds a queue.

import { path as at, get, put } from "../api.js";
import { definitionRows } from "../definition_rows.js";
import { h, setText } from "../dom.js";
import { check, choice, field, textInput } from "../forms.js";
import { additionDialog, refuseExisting, vhostField } from "../list_page.js";
import { link } from "../router.js";

const TYPES = {
  classic: "Delivers each message to one consumer.",
  quorum: "As classic, always durable, with a delivery limit of 20.",
  stream: "Keeps its messages; each reader has its own offset.",
};
const ONLY_AT_DECLARATION = [
  { name: "x-max-priority", meaning: "Highest priority of messages, 1 to 255.", example: "10" },
  { name: "x-single-active-consumer", meaning: "true: one consumer at a time receives messages.", example: "true" },
];

/** Opens the dialog. Known arguments are the keys of policies, and those that only a declaration can set. */
export async function addQueue() {
  const keys = await get("/api/policy-keys").catch(() => []); // hints are optional
  const known = keys
    .filter((key) => key.about === "queues")
    .map(({ argument, meaning, takes_text }) => ({ name: argument, meaning, takes_text }));
  const table = definitionRows({}, [...ONLY_AT_DECLARATION, ...known], { legend: "Arguments" });
  const vhost = await vhostField();
  const type = choice("type", Object.keys(TYPES), "classic");
  const typeField = field("Type", type, TYPES.classic);
  const hint = typeField.querySelector("small");
  const explain = () => hint && setText(hint, TYPES[type.value]);
  type.addEventListener("change", explain);
  presetType(vhost.querySelector("select"), type, explain);
  const fields = [
    h("div", { class: "row" }, field("Name", textInput("name", { required: true })), vhost),
    typeField,
    check("Durable: survives a broker restart", "durable", true),
    check("Auto-delete: deleted when its last consumer is cancelled", "auto-delete"),
    table.element,
  ];
  additionDialog("queue", fields, async (given) => {
    const [name, vhost] = [given.get("name"), given.get("vhost")];
    await refuseExisting(at`/api/queues/${vhost}`, "Queue", name, { where: ` in virtual host ${vhost}` });
    await put(at`/api/queues/${vhost}/${name}`, declarationOf(given, table.value()));
    return { address: link`/queues/${vhost}/${name}`, text: `Queue ${name} created.` };
  });
}

/** Selects the default queue type of the virtual host. */
function presetType(vhost, type, explain) {
  const preset = async () => {
    const found = await get(at`/api/vhosts/${vhost.value}`, { columns: "default_queue_type" }).catch(() => null);
    if (!(found?.default_queue_type in TYPES)) return;
    type.value = found.default_queue_type;
    explain();
  };
  vhost.addEventListener("change", preset);
  preset();
}

/** Queues of other types than classic are always durable. */
function declarationOf(given, table) {
  const type = given.get("type");
  return {
    durable: given.has("durable") || type !== "classic",
    auto_delete: given.has("auto-delete"),
    arguments: { "x-queue-type": type, ...table },
  };
}
