// All virtual hosts.

import { path as at, get, put } from "../api.js";
import { h } from "../dom.js";
import { byteRate, number, rate } from "../format.js";
import { field, textInput } from "../forms.js";
import { badge, button, nameLink, pageHead } from "../layout.js";
import { additionDialog, refuseExisting } from "../list_page.js";
import { link } from "../router.js";
import { numeric, Table } from "../table.js";
import { frame, isAdministrator } from "./admin_frame.js";
import { queueTypeField } from "./admin_queue_type.js";

export const path = "/admin/vhosts";
export const under = "Admin";
export const title = () => "Virtual hosts";

const COLUMNS =
  "name,description,tags,tracing,cell,messages_ready,messages_unacknowledged," +
  "message_stats.publish_details,message_stats.deliver_get_details,recv_oct_details,send_oct_details";

export function show(place, _parameters, signal, user) {
  const table = new Table({
    columns: columns(),
    source: (question, signal) => get("/api/vhosts", { ...question, columns: COLUMNS }, { signal }),
    signal,
    sort: "name",
    noun: "virtual host",
    isKept: true,
    empty: "You have no permissions in any virtual host. Ask an administrator for access.",
  });
  const about = "Virtual hosts isolate queues, exchanges, policies and permissions from each other.";
  frame(
    place,
    user,
    "Virtual hosts",
    pageHead("Virtual hosts", about, isAdministrator(user) && button("Add virtual host", addVhost, "strong")),
    table.element,
  );
}

function columns() {
  return [
    {
      title: "Name",
      sort: "name",
      width: "name",
      value: (row) => row.name,
      show: (name) => nameLink(link`/admin/vhosts/${name}`, name),
    },
    { title: "Description", rank: 2, value: (row) => row.description },
    {
      title: "Tags",
      rank: 3,
      value: (row) => [row.tags, row.tracing, row.cell],
      show: ([tags, isTraced, cell]) => [
        isTraced && badge("tracing", "warn"),
        cell && badge(`cell ${cell}`),
        tags.map((tag) => badge(tag)),
      ],
    },
    numeric("Ready", "messages_ready", number),
    numeric("Unacked", "messages_unacknowledged", number),
    numeric("Publish rate", "message_stats.publish_details.rate", rate, { rank: 2 }),
    numeric("Deliver rate", "message_stats.deliver_get_details.rate", rate, { rank: 2 }),
    numeric("From clients", "recv_oct_details.rate", byteRate, { rank: 3 }),
    numeric("To clients", "send_oct_details.rate", byteRate, { rank: 3 }),
  ];
}

export function addVhost() {
  const fields = [
    field("Name", textInput("name", { required: true })),
    field("Description", h("input", { name: "description", maxlength: "1000", autocomplete: "off" })),
    field("Tags", h("input", { name: "tags", autocomplete: "off", spellcheck: "false" }), "Comma-separated."),
    queueTypeField(),
  ];
  additionDialog("virtual host", fields, async (given) => {
    const name = given.get("name");
    await refuseExisting("/api/vhosts", "Virtual host", name);
    await put(at`/api/vhosts/${name}`, {
      description: given.get("description"),
      tags: given.get("tags"),
      default_queue_type: given.get("default_queue_type"),
    });
    const text = `Virtual host ${name} created. You have full permissions in it.`;
    return { address: link`/admin/vhosts/${name}`, text };
  });
}
