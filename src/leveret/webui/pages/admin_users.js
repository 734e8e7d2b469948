// All users. Users without any permissions are flagged.

import { path as at, get, put } from "../api.js";
import { h } from "../dom.js";
import { field, textInput } from "../forms.js";
import { badge, button, nameLink, nameText, pageHead } from "../layout.js";
import { additionDialog, refuseExisting } from "../list_page.js";
import { passwordInput } from "../password_input.js";
import { link } from "../router.js";
import { Table } from "../table.js";
import { frame, isAdministrator, onlyAdministrators } from "./admin_frame.js";
import { tagFields, tagsOf } from "./admin_user_changes.js";

export const path = "/admin/users";
export const under = "Admin";
export const title = () => "Users";

const SHOWN_VHOSTS = 4;

export function show(place, _parameters, signal, user) {
  if (!isAdministrator(user)) return frame(place, user, "Users", pageHead("Users"), onlyAdministrators(user, "Users"));
  const table = new Table({
    columns: columns(user),
    source: userSource,
    signal,
    sort: "name",
    noun: "user",
    isKept: true,
    empty: "No users yet. Add one for each application, with only the permissions that it needs.",
  });
  return frame(
    place,
    user,
    "Users",
    pageHead(
      "Users",
      "Tags control access to the management UI and its HTTP API; permissions control access to queues and exchanges.",
      button("Add user", addUser, "strong"),
    ),
    table.element,
  );
}

async function userSource(question, signal) {
  const [answer, permissions] = await Promise.all([
    get("/api/users", { ...question, columns: "name,tags,limits,password_hash" }, { signal }),
    get("/api/permissions", { columns: "user,vhost" }, { signal }),
  ]);
  const vhosts = new Map();
  for (const { user, vhost } of permissions) vhosts.set(user, [...(vhosts.get(user) ?? []), vhost]);
  for (const row of answer.items) {
    row.vhosts = vhosts.get(row.name) ?? [];
    row.hasPassword = Boolean(row.password_hash);
    delete row.password_hash;
  }
  return answer;
}

function columns(user) {
  return [
    {
      title: "Name",
      sort: "name",
      width: "name",
      value: (row) => row.name,
      show: (name) => [
        nameLink(link`/admin/users/${name}`, name),
        name === user.name && h("span", { class: "faint" }, " (you)"),
      ],
    },
    { title: "Tags", value: (row) => row.tags, show: (tags) => tags.map((tag) => badge(tag)) },
    { title: "Virtual hosts", rank: 2, value: (row) => row.vhosts, show: vhostBadges },
    { title: "Password", rank: 3, width: "m", value: (row) => (row.hasPassword ? "set" : "none") },
    {
      title: "Limits",
      rank: 3,
      value: (row) => [row.limits],
      show: ([limits]) =>
        Object.entries(limits)
          .map(([name, value]) => `${name} ${value}`)
          .join(", "),
    },
  ];
}

function vhostBadges(names) {
  if (!names.length) return badge("no permissions", "warn", "Open the user to set permissions for a virtual host");
  const shown = names.slice(0, SHOWN_VHOSTS);
  const more = names.length - shown.length;
  return h(
    "span",
    { title: names.join(", ") },
    shown.map((name) => badge(nameText(name))),
    more > 0 && badge(`+${more}`),
  );
}

export function addUser() {
  const fields = [
    field("User name", textInput("name", { required: true })),
    field(
      "Password",
      passwordInput(),
      "Leave empty for a user that logs in with a client certificate or single sign-on.",
    ),
    tagFields([]),
  ];
  additionDialog("user", fields, async (given) => {
    const [name, password] = [given.get("name"), given.get("password")];
    await refuseExisting("/api/users", "User", name, { remedy: "choose another name, or edit the existing user" });
    await put(at`/api/users/${name}`, { tags: tagsOf(given), ...(password ? { password } : {}) });
    return { address: link`/admin/users/${name}`, text: `User ${name} created. Set its permissions next.` };
  });
}
