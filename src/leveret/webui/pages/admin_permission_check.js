// Permission check. Administrators check any user, other users themselves.

import { pageHead } from "../layout.js";
import { frame, isAdministrator } from "./admin_frame.js";
import { permissionCheck } from "./permission_check.js";

export const path = "/admin/access";
export const under = "Admin";
export const title = () => "Permission check";

export function show(place, _parameters, signal, user) {
  const isAsking = isAdministrator(user);
  const head = pageHead(
    isAsking ? "Check permissions" : "Check my permissions",
    "Dry run: checks permissions as for a real client; changes nothing.",
  );
  frame(
    place,
    user,
    "Permission check",
    head,
    permissionCheck({ user: isAsking ? null : user.name, first: user.name, signal }),
  );
}
