// Permissions and topic permissions of one user, by virtual host.

import { path as at, get, put, remove } from "../api.js";
import { h } from "../dom.js";
import { choice, dialog, field, form } from "../forms.js";
import { button } from "../layout.js";
import { notify, undoable } from "../notices.js";
import { rowsSource, Table } from "../table.js";
import { vhostNames } from "../vhosts.js";
import { opener } from "./admin_frame.js";
import { suggestionInput } from "./admin_suggestions.js";

const ALL = { configure: ".*", write: ".*", read: ".*" };
const MEANINGS = {
  configure: "Queues and exchanges that the user may declare and delete.",
  write: "Exchanges that the user may publish to; queues and exchanges that it may bind.",
  read: "Queues that the user may consume, get from and purge; exchanges that it may bind to.",
};

function pattern(name, value, hint) {
  return field(
    name,
    h("input", { name, value, class: "mono", autocomplete: "off", spellcheck: "false", "aria-label": name }),
    hint,
  );
}

/** `set()` opens the dialog, in which the virtual host is selected. */
export function permissionTable(user, signal) {
  const load = (signal) => get(at`/api/users/${user}/permissions`, undefined, { signal });
  const set = (row) => setPermissions(user, row, () => table.refresh());
  const clear = (vhost) => clearPermissions(user, vhost, () => table.refresh());
  const table = new Table({
    columns: [
      {
        title: "Virtual host",
        sort: "vhost",
        width: "name",
        value: (row) => [row],
        show: ([row]) => opener(row.vhost, () => set(row)),
      },
      ...Object.keys(ALL).map((kind) => ({
        title: kind[0].toUpperCase() + kind.slice(1),
        sort: kind,
        value: (row) => row[kind],
        show: shownPattern,
      })),
      {
        title: "",
        rank: 2,
        width: "s",
        align: "right",
        value: (row) => [row.vhost],
        show: ([vhost]) => button("Clear", () => clear(vhost), "danger small"),
      },
    ],
    source: rowsSource(load, (row) => row.vhost),
    signal,
    noun: "permission",
    empty: () =>
      h(
        "p",
        { class: "empty warn-text" },
        "No permissions: this user can log in but cannot access any virtual host. Set permissions for one.",
      ),
  });
  return { element: table.element, set: () => set(null) };
}

function shownPattern(text) {
  return text === "" ? h("span", { class: "faint" }, "none") : h("code", {}, text);
}

async function setPermissions(user, row, whenDone) {
  const names = row ? [row.vhost] : await vhostNames();
  const given = row ?? ALL;
  const close = dialog(
    `Set permissions for ${user}`,
    form(
      [
        field("Virtual host", choice("vhost", names, names[0])),
        Object.entries(MEANINGS).map(([kind, meaning]) => pattern(kind, given[kind], meaning)),
        h(
          "p",
          { class: "faint" },
          "Regular expressions, matched anywhere in the name: .* matches everything, ^orders\\. matches names that " +
            "start with “orders.”, and an empty expression matches nothing.",
        ),
      ],
      "Set permissions",
      async (values) => {
        const vhost = values.get("vhost");
        await put(
          at`/api/permissions/${vhost}/${user}`,
          Object.fromEntries(Object.keys(ALL).map((kind) => [kind, values.get(kind)])),
        );
        close();
        notify(`Permissions of user ${user} in ${vhost} set.`);
        whenDone();
      },
    ),
  );
}

function clearPermissions(user, vhost, whenDone) {
  const act = async () => {
    await remove(at`/api/permissions/${vhost}/${user}`);
    notify(`Permissions of user ${user} in ${vhost} cleared.`);
  };
  undoable(`Permissions of user ${user} in ${vhost} will be cleared`, act, whenDone);
}

// ---- topic permissions

export function topicTable(user, signal) {
  const load = (signal) => get(at`/api/users/${user}/topic-permissions`, undefined, { signal });
  const set = (row) => setTopic(user, row, signal, () => table.refresh());
  const table = new Table({
    columns: [
      {
        title: "Exchange",
        sort: "exchange",
        width: "name",
        value: (row) => [row],
        show: ([row]) => opener(row.exchange, () => set(row)),
      },
      { title: "Virtual host", sort: "vhost", rank: 2, value: (row) => row.vhost },
      { title: "Write", value: (row) => row.write, show: shownPattern },
      { title: "Read", value: (row) => row.read, show: shownPattern },
      {
        title: "",
        rank: 2,
        width: "m",
        align: "right",
        value: (row) => [row.vhost],
        show: ([vhost]) => button("Clear vhost", () => clearTopics(user, vhost, () => table.refresh()), "danger small"),
      },
    ],
    source: rowsSource(load, (row) => `${row.exchange} ${row.vhost}`),
    signal,
    noun: "topic permission",
    empty: "No topic permissions: this user may publish and bind with any routing key.",
  });
  return { element: table.element, set: () => set(null) };
}

async function setTopic(user, row, signal, whenDone) {
  const names = row ? [row.vhost] : await vhostNames();
  const vhost = choice("vhost", names, names[0]);
  const exchange = suggestionInput(
    { name: "exchange", required: true, value: row?.exchange ?? "", readonly: Boolean(row) },
    () => at`/api/exchanges/${vhost.value}`,
    signal,
  );
  const close = dialog(
    `Set topic permissions for ${user}`,
    form(
      [
        field("Virtual host", vhost),
        field("Topic exchange", exchange.element),
        pattern("write", row?.write ?? ".*", "Routing keys that the user may publish with."),
        pattern("read", row?.read ?? ".*", "Routing keys that the user may bind with."),
        h(
          "p",
          { class: "faint" },
          "{username} and {vhost} in a pattern are replaced with the names of the user and its virtual host.",
        ),
      ],
      "Set topic permissions",
      async (given) => {
        const [where, name] = [given.get("vhost"), given.get("exchange")];
        await put(at`/api/topic-permissions/${where}/${user}`, {
          exchange: name,
          write: given.get("write"),
          read: given.get("read"),
        });
        close();
        notify(`Topic permissions of user ${user} for exchange ${name} set.`);
        whenDone();
      },
    ),
  );
}

function clearTopics(user, vhost, whenDone) {
  const act = async () => {
    await remove(at`/api/topic-permissions/${vhost}/${user}`);
    notify(`Topic permissions of user ${user} in ${vhost} cleared: it may use any routing key.`);
  };
  undoable(`All topic permissions of user ${user} in ${vhost} will be cleared`, act, whenDone);
}
