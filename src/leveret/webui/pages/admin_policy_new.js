// A new policy.

import { showPolicy } from "./admin_policy.js";

export const path = "/admin/policy";
export const under = "Admin";
export const title = () => "Add policy";

export function show(place, _parameters, signal, user) {
  showPolicy(place, false, null, signal, user);
}
