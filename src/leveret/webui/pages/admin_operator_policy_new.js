// A new operator policy.

import { showPolicy } from "./admin_policy.js";

export const path = "/admin/operator-policy";
export const under = "Admin";
export const title = () => "Add operator policy";

export function show(place, _parameters, signal, user) {
  showPolicy(place, true, null, signal, user);
}
