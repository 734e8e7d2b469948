// Export and import of definitions. The import shows a preview of its changes first.

import { path as at, ROOT } from "../api.js";
import { h } from "../dom.js";
import { field } from "../forms.js";
import { pageHead, section } from "../layout.js";
import { vhostNames } from "../vhosts.js";
import { frame, isAdministrator, onlyAdministrators } from "./admin_frame.js";
import { importer } from "./admin_import.js";

export const path = "/admin/definitions";
export const under = "Admin";
export const title = () => "Definitions";

const WHOLE = "";

export function show(place, _parameters, signal, user) {
  const head = pageHead(
    "Definitions",
    "Virtual hosts, users, permissions, policies, exchanges, queues and bindings, in RabbitMQ's format.",
  );
  if (!isAdministrator(user)) return frame(place, user, "Definitions", head, onlyAdministrators(user, "Definitions"));
  const where = vhostSelect(signal, "Whole broker");
  const into = vhostSelect(signal, "As in the file");
  return frame(
    place,
    user,
    "Definitions",
    head,
    h("div", { class: "two" }, section("Export", exporter(where)), section("Import", importer(into, signal))),
  );
}

function vhostSelect(signal, all) {
  const select = h("select", {}, h("option", { value: WHOLE }, all));
  vhostNames(signal).then((names) =>
    select.append(...names.map((name) => h("option", { value: name }, `Virtual host ${name}`))),
  );
  return select;
}

function exporter(where) {
  const download = h("a", { class: "button strong", download: true }, "Download definitions");
  const lead = () => {
    const name = `leveret-${new Date().toISOString().slice(0, 10)}.json`;
    const address = where.value === WHOLE ? "/api/definitions" : at`/api/definitions/${where.value}`;
    download.setAttribute("href", `${ROOT}${address.slice(1)}?download=${name}`);
  };
  where.addEventListener("change", lead);
  lead();
  return h(
    "div",
    { class: "card" },
    field("What to export", where),
    h(
      "p",
      { class: "faint" },
      "The whole broker includes users and their password hashes: store the file securely. " +
        "The export of a virtual host contains no users.",
    ),
    h("div", { class: "actions" }, download),
  );
}
