// All users. Users without any permissions are flagged.

import { path as at, get, put } from "../api.js";
import { h } from "../dom.js";
import { field, textInput } from "../forms.js";
import { button, pageHead } from "../layout.js";
import { additionDialog, refuseExisting } from "../list_page.js";
import { link } from "../router.js";
import { Table } from "../table.js";
import { frame, isAdministrator, onlyAdministrators } from "./admin_frame.js";
import { tagFields, tagsOf } from "./admin_user_changes.js";

export const path = "/admin/users";
export const under = "Admin";
export const title = () => "Users";

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
  const [answer, without] = await Promise.all([
    get("/api/users", { ...question, columns: "name,tags,limits" }, { signal }),
    get("/api/users/without-permissions", { columns: "name", name: question.name }, { signal }),
  ]);
  const idle = new Set(without.map((one) => one.name));
  answer.items.forEach((row) => {
    row.isIdle = idle.has(row.name);
  });
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
        h("a", { href: link`/admin/users/${name}` }, name),
        name === user.name && h("span", { class: "faint" }, " (you)"),
      ],
    },
    { title: "Tags", value: (row) => row.tags, show: (tags) => tags.map((tag) => h("span", { class: "badge" }, tag)) },
    {
      title: "Permissions",
      rank: 2,
      value: (row) => [row.isIdle],
      show: ([isIdle]) =>
        isIdle
          ? h(
              "span",
              { class: "badge warn", title: "Open the user to set permissions for a virtual host" },
              "no permissions",
            )
          : "set",
    },
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

function addUser() {
  const fields = [
    field("User name", textInput("name", { required: true })),
    field(
      "Password",
      h("input", { name: "password", type: "password", autocomplete: "new-password" }),
      "Leave empty for a user that logs in with a client certificate only.",
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
