// All limits of virtual hosts and users.

import { get } from "../api.js";
import { fill, h } from "../dom.js";
import { number } from "../format.js";
import { dialog, field } from "../forms.js";
import { button, nameLink, pageHead } from "../layout.js";
import { problemBox } from "../notices.js";
import { link } from "../router.js";
import { rowsSource, Table } from "../table.js";
import { vhostNames } from "../vhosts.js";
import { frame, isAdministrator } from "./admin_frame.js";
import { LIMITS, limitsForm } from "./admin_limits_form.js";
import { suggestionInput } from "./admin_suggestions.js";

export const path = "/admin/limits";
export const under = "Admin";
export const title = () => "Limits";

const KINDS = { vhost: "virtual host", user: "user" };

export function show(place, _parameters, signal, user) {
  const isChanging = isAdministrator(user);
  const table = new Table({
    columns: columns(isChanging),
    source: rowsSource(load),
    signal,
    sort: "name",
    noun: "limit",
    empty: "No limits set. Set limits to cap the connections, channels or queues of a virtual host or a user.",
  });
  const set = button("Set limits …", () => setLimits(signal, () => table.refresh()), "strong");
  frame(
    place,
    user,
    "Limits",
    pageHead(
      "Limits",
      "Maximum numbers of connections, channels and queues per virtual host or user.",
      isChanging && set,
    ),
    table.element,
  );
}

async function load(signal) {
  const [vhosts, users] = await Promise.all([
    get("/api/vhost-limits", undefined, { signal }),
    get("/api/user-limits", undefined, { signal }),
  ]);
  return [
    ...vhosts.map((row) => ({ kind: "vhost", name: row.vhost, ...row.value })),
    ...users.map((row) => ({ kind: "user", name: row.user, ...row.value })),
  ];
}

function columns(isChanging) {
  const named = ([kind, name]) => {
    if (kind === "vhost") return nameLink(link`/admin/vhosts/${name}`, name);
    return isChanging ? nameLink(link`/admin/users/${name}`, name) : name;
  };
  const shown = (value) => (value === undefined ? h("span", { class: "faint" }, "no limit") : number(value));
  return [
    { title: "Name", sort: "name", width: "name", value: (row) => [row.kind, row.name], show: named },
    { title: "Type", sort: "kind", width: "m", rank: 2, value: (row) => KINDS[row.kind] },
    {
      title: "Connections",
      sort: "max-connections",
      align: "right",
      value: (row) => row["max-connections"] ?? null,
      show: (value) => shown(value ?? undefined),
    },
    {
      title: "Channels",
      sort: "max-channels",
      align: "right",
      rank: 2,
      value: (row) => [row.kind, row["max-channels"]],
      show: ([kind, value]) => kind === "user" && shown(value),
    },
    {
      title: "Queues",
      sort: "max-queues",
      align: "right",
      value: (row) => [row.kind, row["max-queues"]],
      show: ([kind, value]) => kind === "vhost" && shown(value),
    },
  ];
}

/** The form with the current limits, or the error if they cannot be loaded. */
async function knownLimits(kind, name, whenDone, signal) {
  try {
    const found = (await load(signal)).find((row) => row.kind === kind && row.name === name) ?? {};
    const limits = limitsForm(kind, name);
    limits.show(
      Object.fromEntries(
        Object.keys(LIMITS[kind])
          .filter((limit) => limit in found)
          .map((limit) => [limit, found[limit]]),
      ),
    );
    limits.whenChanged(whenDone);
    return limits.element;
  } catch (problem) {
    return problem.name === "AbortError" ? null : problemBox(problem);
  }
}

async function setLimits(signal, whenDone) {
  const vhosts = await vhostNames(signal);
  const form = h("div", {});
  const kind = h(
    "select",
    {},
    Object.entries(KINDS).map(([value, text]) => h("option", { value }, text)),
  );
  const vhost = h(
    "select",
    {},
    vhosts.map((name) => h("option", { value: name }, name)),
  );
  const user = suggestionInput({}, () => "/api/users", signal);
  const fields = { vhost: field("Virtual host", vhost), user: field("User", user.element) };
  const done = () => {
    close();
    whenDone();
  };
  let asked = 0;
  const adapt = async () => {
    asked += 1;
    const number = asked;
    for (const [name, element] of Object.entries(fields)) element.hidden = name !== kind.value;
    const name = kind.value === "vhost" ? vhost.value : user.input.value;
    fill(form);
    const shown = name ? await knownLimits(kind.value, name, done, signal) : null;
    if (number === asked) fill(form, shown); // unless the selection has changed
  };
  for (const control of [kind, vhost, user.input]) control.addEventListener("change", adapt);
  const close = dialog("Set limits", h("div", {}, field("Apply to", kind), fields.vhost, fields.user, form));
  await adapt();
}
