// One user: what it may do in each virtual host, its limits, and whether it may do a certain thing.

import { get, path as at } from "../api.js";
import { fill, h } from "../dom.js";
import { live } from "../live.js";
import { endTrouble, showTrouble } from "../notices.js";
import { accessTester } from "./admin_access_tester.js";
import { button, frame, isAdministrator, listHead, objectHead, onlyAdministrators, section } from "./admin_frame.js";
import { limitsForm } from "./admin_limits_form.js";
import { permissionTable, topicTable } from "./admin_user_permissions.js";
import { changePassword, changeTags, deleteUser } from "./admin_user_changes.js";

export const path = "/admin/users/:name";
export const under = "Admin";
export const title = ({ name }) => name;

export function show(place, { name }, signal, user) {
  if (!isAdministrator(user)) return frame(place, user, "Users", listHead("Users"), onlyAdministrators(user, "Users"));
  const tags = h("span", { class: "badges" });
  const trouble = h("div", {});
  const limits = limitsForm("user", name);
  const refresh = live(
    signal,
    async () => {
      const found = await get(at`/api/users/${name}`, { columns: "tags,limits" }, { signal });
      endTrouble(trouble);
      fill(
        tags,
        found.tags.map((tag) => h("span", { class: "badge" }, tag)),
      );
      limits.show(found.limits);
    },
    (problem) => showTrouble(trouble, problem, "All users", "#/admin/users"),
  );
  limits.whenChanged(refresh);
  const permissions = permissionTable(name, signal);
  const topics = topicTable(name, signal);
  const remove = button("Delete user", () => deleteUser(name, signal), "danger");
  remove.disabled = name === user.name; // nobody locks the door behind oneself by mistake
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
    section("Check permissions", accessTester({ user: name, signal })),
    section("Limits", limits.element),
  );
}
