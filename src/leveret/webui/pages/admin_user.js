// One user: permissions, topic permissions, permission check, limits.

import { path as at, get } from "../api.js";
import { fill, h } from "../dom.js";
import { badge, button, objectHead, pageHead, section } from "../layout.js";
import { endTrouble, showTrouble } from "../notices.js";
import { poll } from "../poll.js";
import { frame, isAdministrator, onlyAdministrators } from "./admin_frame.js";
import { limitsForm } from "./admin_limits_form.js";
import { changePassword, changeTags, deleteUser } from "./admin_user_changes.js";
import { permissionTable, topicTable } from "./admin_user_permissions.js";
import { permissionCheck } from "./permission_check.js";

export const path = "/admin/users/:name";
export const under = "Admin";
export const title = ({ name }) => name;

export function show(place, { name }, signal, user) {
  if (!isAdministrator(user)) return frame(place, user, "Users", pageHead("Users"), onlyAdministrators(user, "Users"));
  const tags = h("span", { class: "badges" });
  const trouble = h("div", {});
  const limits = limitsForm("user", name);
  const refresh = poll(
    signal,
    async () => {
      const found = await get(at`/api/users/${name}`, { columns: "tags,limits" }, { signal });
      endTrouble(trouble);
      fill(
        tags,
        found.tags.map((tag) => badge(tag)),
      );
      limits.show(found.limits);
    },
    (problem) => showTrouble(trouble, problem, "All users", "#/admin/users"),
  );
  limits.whenChanged(refresh);
  const permissions = permissionTable(name, signal);
  const topics = topicTable(name, signal);
  const remove = button("Delete user", () => deleteUser(name, signal), "danger");
  remove.disabled = name === user.name; // users cannot delete themselves
  return frame(
    place,
    user,
    "Users",
    objectHead(
      name,
      ["user ", tags],
      button("Change tags …", () => changeTags(name, refresh)),
      button("Change password …", () => changePassword(name)),
      remove,
    ),
    trouble,
    section("Permissions", permissions.element, button("Set permissions …", permissions.set, "strong")),
    section("Topic permissions", topics.element, button("Set topic permissions …", topics.set)),
    section("Check permissions", permissionCheck({ user: name, signal })),
    section("Limits", limits.element),
  );
}
