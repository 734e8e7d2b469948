// All virtual hosts.

import { get, path as at, put } from "../api.js";
import { h } from "../dom.js";
import { dialogue, field, form } from "../forms.js";
import { number, rate } from "../format.js";
import { tell } from "../notices.js";
import { go, link } from "../router.js";
import { Table } from "../table.js";
import { button, frame, isAdministrator, listHead } from "./admin_frame.js";

export const path = "/admin/vhosts";
export const under = "Admin";
export const title = () => "Virtual hosts";

const COLUMNS =
  "name,description,tags,tracing,messages_ready,messages_unacknowledged,message_stats.publish_details,message_stats.deliver_get_details";

export function show(place, parameters, signal, user) {
  const table = new Table({
    columns: columns(),
    source: (question, signal) => get("/api/vhosts", { ...question, columns: COLUMNS }, { signal }),
    signal,
    sort: "name",
    noun: "virtual host",
    isKept: true,
    empty: () =>
      h("p", { class: "empty" }, "You may enter no virtual host: an administrator can give you permissions in one."),
  });
  const about =
    "Each is a broker of its own: queues, exchanges, policies and permissions of one are not seen in another.";
  frame(
    place,
    user,
    "Virtual hosts",
    listHead("Virtual hosts", about, isAdministrator(user) && button("Add a virtual host", addVhost, "strong")),
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
      show: (name) => h("a", { href: link`/admin/vhosts/${name}` }, name),
    },
    { title: "Description", rank: 2, value: (row) => row.description },
    {
      title: "Tags",
      rank: 3,
      value: (row) => [row.tags, row.tracing],
      show: ([tags, isTraced]) => [
        isTraced && h("span", { class: "badge warn" }, "traced"),
        tags.map((tag) => h("span", { class: "badge" }, tag)),
      ],
    },
    {
      title: "Ready",
      sort: "messages_ready",
      align: "right",
      width: "s",
      value: (row) => row.messages_ready,
      show: number,
    },
    {
      title: "Unacked",
      sort: "messages_unacknowledged",
      align: "right",
      width: "s",
      value: (row) => row.messages_unacknowledged,
      show: number,
    },
    {
      title: "In",
      sort: "message_stats.publish_details.rate",
      rank: 2,
      align: "right",
      width: "s",
      value: (row) => row.message_stats?.publish_details?.rate,
      show: rate,
    },
    {
      title: "Out",
      sort: "message_stats.deliver_get_details.rate",
      rank: 2,
      align: "right",
      width: "s",
      value: (row) => row.message_stats?.deliver_get_details?.rate,
      show: rate,
    },
  ];
}

function addVhost() {
  const close = dialogue(
    "Add a virtual host",
    form(
      [
        field(
          "Name",
          h("input", { name: "name", required: true, maxlength: "255", autocomplete: "off", spellcheck: "false" }),
        ),
        field("Description", h("input", { name: "description", maxlength: "1000", autocomplete: "off" })),
        field(
          "Tags",
          h("input", { name: "tags", autocomplete: "off", spellcheck: "false" }),
          "Your own words, with commas between them.",
        ),
      ],
      "Add",
      async (given) => {
        const name = given.get("name");
        const found = await get("/api/vhosts", { columns: "name", name });
        if (found.some((one) => one.name === name))
          throw { title: "Not added", reason: `Virtual host ${name} exists already: choose another name.` };
        await put(at`/api/vhosts/${name}`, { description: given.get("description"), tags: given.get("tags") });
        close();
        tell(`Virtual host ${name} is there, and you may do everything in it.`);
        go(link`/admin/vhosts/${name}`.slice(1));
      },
    ),
  );
}
