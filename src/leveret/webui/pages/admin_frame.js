// Shared by all admin pages: tabs, headings and access rules.

import { fill, h } from "../dom.js";
import { nameText } from "../layout.js";

const TABS = [
  { name: "Users", address: "#/admin/users", isFor: isAdministrator },
  { name: "Virtual hosts", address: "#/admin/vhosts" },
  { name: "Permission check", address: "#/admin/access" },
  { name: "Policies", address: "#/admin/policies" },
  { name: "Limits", address: "#/admin/limits" },
  { name: "Definitions", address: "#/admin/definitions", isFor: isAdministrator },
];

export function isAdministrator(user) {
  return Boolean(user.tags?.includes("administrator"));
}

/** Operator policies require an administrator. */
export function writesPolicies(user) {
  return isAdministrator(user) || Boolean(user.tags?.includes("policymaker"));
}

/** The first admin page for this user. */
export function firstTab(user) {
  if (isAdministrator(user)) return "#/admin/users";
  return writesPolicies(user) ? "#/admin/policies" : "#/admin/access";
}

export function tabsFor(user) {
  return TABS.filter((tab) => !tab.isFor || tab.isFor(user));
}

/** An admin page. `current` is the name of its tab, which is always shown. */
export function frame(place, user, current, head, ...content) {
  const allowed = tabsFor(user);
  const tabs = TABS.filter((tab) => allowed.includes(tab) || tab.name === current);
  const row = h(
    "div",
    { class: "tabs", role: "navigation", "aria-label": "Admin" },
    tabs.map((tab) => h("a", { href: tab.address, "aria-current": tab.name === current && "page" }, tab.name)),
  );
  fill(place, row, head, content);
}

/** Shown to users without access to a page. */
export function onlyAdministrators(user, what) {
  const own = user.tags?.length ? `has the tags ${user.tags.join(", ")}` : "has no tags";
  return h(
    "section",
    { class: "card no-access" },
    h("h2", {}, `${what} are available to administrators only`),
    h(
      "p",
      {},
      `User ${user.name} ${own}. Ask an administrator for the tag `,
      h("code", {}, "administrator"),
      ". To see what you are allowed to do, open ",
      h("a", { href: "#/admin/access" }, "Permission check"),
      ".",
    ),
  );
}

/** A button that looks like a link. */
export function opener(text, onclick) {
  return h("button", { type: "button", class: "as-link", onclick }, nameText(text));
}
