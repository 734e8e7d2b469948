// One virtual host: totals, permissions, limits, deletion.

import { path as at, get, put } from "../api.js";
import { deleteAndLeave } from "../deletion.js";
import { fill, h, setText } from "../dom.js";
import { number, rate } from "../format.js";
import { deletionDialog, dialog, field, form } from "../forms.js";
import { button, objectHead, section } from "../layout.js";
import { endTrouble, notify, notifyError, showTrouble } from "../notices.js";
import { poll } from "../poll.js";
import { link } from "../router.js";
import { rowsSource, Table } from "../table.js";
import { Tiles } from "../tiles.js";
import { frame, isAdministrator } from "./admin_frame.js";
import { limitsForm } from "./admin_limits_form.js";

export const path = "/admin/vhosts/:name";
export const under = "Admin";
export const title = ({ name }) => name;

export function show(place, { name }, signal, user) {
  const isChanging = isAdministrator(user);
  const view = new View();
  const limits = limitsForm("vhost", name);
  const address = at`/api/vhosts/${name}`;
  const refresh = poll(
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
    view.tiles.element,
    isChanging && section("Permissions", permissions(address, signal)),
    isChanging && section("Limits", limits.element),
  );
}

class View {
  constructor() {
    this.badges = h("span", { class: "badges" });
    this.trouble = h("div", {});
    this.description = h("p", {});
    this.tiles = new Tiles("Ready", "Unacked", "Publish rate", "Deliver rate");
  }

  show(vhost) {
    endTrouble(this.trouble);
    setText(this.description, vhost.description);
    fill(
      this.badges,
      vhost.tracing && h("span", { class: "badge warn" }, "tracing"),
      vhost.tags.map((tag) => h("span", { class: "badge" }, tag)),
    );
    this.tiles.show({
      Ready: number(vhost.messages_ready),
      Unacked: number(vhost.messages_unacknowledged),
      "Publish rate": rate(vhost.message_stats?.publish_details?.rate),
      "Deliver rate": rate(vhost.message_stats?.deliver_get_details?.rate),
    });
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
    empty: "No user has permissions here. Open a user in the Users tab to set permissions.",
  }).element;
}

/** A PUT replaces all metadata, so the default queue type is sent back unchanged. */
async function describe(address, name, whenDone) {
  const vhost = await get(address).catch(notifyError);
  if (!vhost) return;
  const { metadata } = vhost;
  const close = dialog(
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
        notify(`Virtual host ${name} updated.`);
        whenDone();
      },
    ),
  );
}

function deleteVhost(address, name, leaving) {
  const text =
    "This deletes its queues with all messages, its exchanges, policies and permissions, and closes its connections.";
  const act = async () => {
    await deleteAndLeave(address, "/admin/vhosts", leaving);
    notify(`Virtual host ${name} deleted.`);
  };
  deletionDialog({ kind: "virtual host", name, text, label: "Virtual host name", act });
}
