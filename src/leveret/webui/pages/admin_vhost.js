// One virtual host: what is in it, who may enter it, its limits, and its end.

import { get, path as at, put } from "../api.js";
import { fill, h, setText } from "../dom.js";
import { end } from "../ending.js";
import { dialogue, field, form } from "../forms.js";
import { number, rate } from "../format.js";
import { live } from "../live.js";
import { endTrouble, showTrouble, tell, tellError } from "../notices.js";
import { link } from "../router.js";
import { Table, rowsSource } from "../table.js";
import { button, frame, isAdministrator, objectHead, section } from "./admin_frame.js";
import { limitsForm } from "./admin_limits_form.js";

export const path = "/admin/vhosts/:name";
export const under = "Admin";
export const title = ({ name }) => name;

const TILES = { ready: "Ready", unacked: "Unacked", in: "Publish rate", out: "Deliver rate" };

export function show(place, { name }, signal, user) {
  const isChanging = isAdministrator(user);
  const view = new View(name);
  const limits = limitsForm("vhost", name);
  const address = at`/api/vhosts/${name}`;
  const refresh = live(
    signal,
    async () => {
      const [vhost, found] = await Promise.all([
        get(address, undefined, { signal }),
        get(at`/api/vhost-limits/${name}`, undefined, { signal }),
      ]);
      view.show(vhost);
      limits.show(found[0]?.value ?? {});
    },
    (problem) => showTrouble(view.trouble, problem, "All virtual hosts", "#/admin/vhosts"),
  );
  limits.whenChanged(refresh);
  const buttons = isChanging && [
    h("a", { class: "button", href: link`/traces/${name}` }, "Traces"),
    button("Edit …", () => describe(address, name, refresh)),
    button("Delete virtual host …", () => deleteVhost(address, name, signal), "danger"),
  ];
  frame(
    place,
    user,
    "Virtual hosts",
    objectHead(name, ["virtual host ", view.badges], buttons),
    view.trouble,
    view.description,
    view.tiles,
    isChanging && section("Permissions", permissions(address, signal)),
    isChanging && section("Limits", limits.element),
  );
}

class View {
  constructor() {
    this.badges = h("span", { class: "badges" });
    this.trouble = h("div", {});
    this.description = h("p", {});
    this.values = Object.fromEntries(Object.keys(TILES).map((key) => [key, h("b", {}, "–")]));
    this.tiles = h(
      "div",
      { class: "tiles" },
      Object.entries(TILES).map(([key, label]) => h("div", { class: "tile" }, h("span", {}, label), this.values[key])),
    );
  }

  show(vhost) {
    endTrouble(this.trouble);
    setText(this.description, vhost.description);
    fill(
      this.badges,
      vhost.tracing && h("span", { class: "badge warn" }, "tracing"),
      vhost.tags.map((tag) => h("span", { class: "badge" }, tag)),
    );
    setText(this.values.ready, number(vhost.messages_ready));
    setText(this.values.unacked, number(vhost.messages_unacknowledged));
    setText(this.values.in, rate(vhost.message_stats?.publish_details?.rate));
    setText(this.values.out, rate(vhost.message_stats?.deliver_get_details?.rate));
  }
}

function permissions(address, signal) {
  const load = (signal) => get(`${address}/permissions`, undefined, { signal });
  const code = (text) => (text === "" ? h("span", { class: "faint" }, "none") : h("code", {}, text));
  return new Table({
    columns: [
      {
        title: "User",
        sort: "user",
        width: "name",
        value: (row) => row.user,
        show: (name) => h("a", { href: link`/admin/users/${name}` }, name),
      },
      { title: "Configure", rank: 2, value: (row) => row.configure, show: code },
      { title: "Write", value: (row) => row.write, show: code },
      { title: "Read", value: (row) => row.read, show: code },
    ],
    source: rowsSource(load, (row) => row.user),
    signal,
    sort: "user",
    noun: "permission",
    empty: () =>
      h("p", { class: "empty" }, "No user has permissions here. Open a user in the Users tab to set permissions."),
  }).element;
}

/** A PUT replaces all that is noted: the queue type that is not asked for here stays. */
async function describe(address, name, whenDone) {
  const vhost = await get(address).catch(tellError);
  if (!vhost) return;
  const { metadata } = vhost;
  const close = dialogue(
    `Edit virtual host ${name}`,
    form(
      [
        field(
          "Description",
          h("input", { name: "description", maxlength: "1000", value: metadata.description, autocomplete: "off" }),
        ),
        field(
          "Tags",
          h("input", { name: "tags", value: metadata.tags.join(", "), autocomplete: "off", spellcheck: "false" }),
          "Comma-separated.",
        ),
      ],
      "Save changes",
      async (given) => {
        await put(address, { ...metadata, description: given.get("description"), tags: given.get("tags") });
        close();
        tell(`Virtual host ${name} updated.`);
        whenDone();
      },
    ),
  );
}

/** Whoever types the name has read what goes with it. */
function deleteVhost(address, name, leaving) {
  const typed = h("input", { name: "typed", required: true, autocomplete: "off", spellcheck: "false" });
  const sending = form(
    [
      h(
        "p",
        {},
        "This deletes its queues with all messages, its exchanges, policies and permissions, and closes its connections. " +
          "It cannot be undone.",
      ),
      h("p", { class: "typed-name" }, "Type ", h("code", {}, name), " to confirm."),
      field("Virtual host name", typed),
    ],
    "Delete virtual host",
    async () => {
      await end(address, "/admin/vhosts", leaving);
      close();
      tell(`Virtual host ${name} deleted.`);
    },
  );
  const action = sending.querySelector("[type=submit]");
  action.classList.add("danger-strong");
  action.disabled = true;
  typed.addEventListener("input", () => {
    action.disabled = typed.value !== name;
  });
  const close = dialogue(`Delete virtual host ${name}`, sending);
}
