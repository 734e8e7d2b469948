// The menu entry of the admin pages: redirects to the first page for the user.

import { get } from "../api.js";
import { distance } from "../fuzzy.js";
import { similar } from "../list_page.js";
import { link } from "../router.js";
import { firstTab, isAdministrator, tabsFor } from "./admin_frame.js";
import { policyAddress } from "./admin_policy_values.js";

export const path = "/admin";
export const nav = "Admin";
export const title = () => "Admin";

const SOME = { page: 1, page_size: 8, sort: "name" };

export function show(_place, _parameters, _signal, user) {
  location.replace(firstTab(user)); // not go(): Back would return here
}

/** Only administrators may list users. */
export async function find(text, signal) {
  const user = await get("/api/login", undefined, { signal });
  const asked = [
    isAdministrator(user) ? named("/api/users", "name", text, signal) : [],
    named("/api/vhosts", "name", text, signal),
    named("/api/policies", "name,vhost", text, signal),
    named("/api/operator-policies", "name,vhost", text, signal),
  ];
  const [users, vhosts, policies, operators] = await Promise.all(asked);
  const tabs = tabsFor(user).filter((tab) => distance(tab.name, text) !== null);
  return [
    ...tabs.map((tab) => ({ title: tab.name, hint: "admin page", address: tab.address.slice(1) })),
    ...users.map(({ name }) => ({ title: name, hint: "user", address: link`/admin/users/${name}`.slice(1) })),
    ...vhosts.map(({ name }) => ({ title: name, hint: "virtual host", address: link`/admin/vhosts/${name}`.slice(1) })),
    ...policies.map((one) => ({
      title: one.name,
      hint: `policy in ${one.vhost}`,
      address: policyAddress(false, one).slice(1),
    })),
    ...operators.map((one) => ({
      title: one.name,
      hint: `operator policy in ${one.vhost}`,
      address: policyAddress(true, one).slice(1),
    })),
  ];
}

function named(address, columns, text, signal) {
  return similar(address, { ...SOME, columns }, text, signal);
}
