// "May this user do that?", on a page of its own. Administrators ask about anybody, others about themselves.

import { accessTester } from "./admin_access_tester.js";
import { frame, isAdministrator, listHead } from "./admin_frame.js";

export const path = "/admin/access";
export const under = "Admin";
export const title = () => "Permission check";

export function show(place, parameters, signal, user) {
  const isAsking = isAdministrator(user);
  const head = listHead(
    isAsking ? "Check permissions" : "Check my permissions",
    "Dry run: checks permissions as for a real client; changes nothing.",
  );
  frame(
    place,
    user,
    "Permission check",
    head,
    accessTester({ user: isAsking ? null : user.name, first: user.name, signal }),
  );
}
