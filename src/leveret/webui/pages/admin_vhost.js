// One virtual host: totals, permissions, limits, deletion.

import { path as at, get, put } from "../api.js";
import { lineChart, rateSeries } from "../chart.js";
import { deleteAndLeave } from "../deletion.js";
import { fill, h, setText } from "../dom.js";
import { byteRate, number, rate } from "../format.js";
import { deletionDialog, dialog, field, form } from "../forms.js";
import { badge, button, nameLink, objectHead, section } from "../layout.js";
import { endTrouble, notify, notifyError, showTrouble } from "../notices.js";
import { poll } from "../poll.js";
import { link } from "../router.js";
import { rowsSource, Table } from "../table.js";
import { Tiles } from "../tiles.js";
import { brokerRanges } from "../time_range.js";
import { frame, isAdministrator } from "./admin_frame.js";
import { limitsForm } from "./admin_limits_form.js";
import { queueTypeField, UNDEFINED } from "./admin_queue_type.js";
import { FURTHER_RATES, lengthSeries, RATES, TRAFFIC } from "./broker_charts.js";

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
        get(address, brokerRanges.query("lengths", "msg_rates"), { signal }),
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
    h("div", { class: "chart-tools" }, brokerRanges.buttons(refresh)),
    h("div", { class: "charts" }, view.queued.element, view.rates.element, view.further.element, view.traffic.element),
    isChanging && section("Permissions", permissions(address, signal)),
    isChanging && section("Limits", limits.element),
  );
}

class View {
  constructor() {
    this.badges = h("span", { class: "badges" });
    this.trouble = h("div", {});
    this.description = h("p", {});
    this.tiles = new Tiles("Ready", "Unacked", "Publish rate", "Deliver rate", "From clients", "To clients");
    this.queued = lineChart("Queued messages");
    this.rates = lineChart("Message rates");
    this.further = lineChart("Redelivered, get, unroutable");
    this.traffic = lineChart("Data rates");
  }

  show(vhost) {
    endTrouble(this.trouble);
    setText(this.description, vhost.description);
    fill(
      this.badges,
      vhost.tracing && badge("tracing", "warn"),
      vhost.cell && badge(`cell ${vhost.cell}`),
      vhost.default_queue_type !== UNDEFINED && badge(`default queue type ${vhost.default_queue_type}`),
      vhost.tags.map((tag) => badge(tag)),
    );
    this.tiles.show({
      Ready: number(vhost.messages_ready),
      Unacked: number(vhost.messages_unacknowledged),
      "Publish rate": rate(vhost.message_stats?.publish_details?.rate),
      "Deliver rate": rate(vhost.message_stats?.deliver_get_details?.rate),
      "From clients": byteRate(vhost.recv_oct_details?.rate),
      "To clients": byteRate(vhost.send_oct_details?.rate),
    });
    const { age } = brokerRanges.current;
    this.queued.draw(lengthSeries(vhost), undefined, age);
    this.rates.draw(rateSeries(vhost.message_stats, RATES), rate, age);
    this.further.draw(rateSeries(vhost.message_stats, FURTHER_RATES), rate, age);
    this.traffic.draw(rateSeries(vhost, TRAFFIC), byteRate, age);
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
        show: (name) => nameLink(link`/admin/users/${name}`, name),
      },
      { title: "Configure", value: (row) => row.configure, show: code },
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

/** A PUT replaces all metadata. */
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
        queueTypeField(metadata.default_queue_type),
      ],
      "Save changes",
      async (given) => {
        await put(address, {
          ...metadata,
          description: given.get("description"),
          tags: given.get("tags"),
          default_queue_type: given.get("default_queue_type"),
        });
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
