// "May this user do that?", on a page of its own. Administrators ask about anybody, others about themselves.

import { accessTester } from "./admin_access_tester.js";
import { frame, isAdministrator, listHead } from "./admin_frame.js";

export const path = "/admin/access";
export const under = "Admin";
export const title = () => "Access";

export function show(place, parameters, signal, user) {
  const isAsking = isAdministrator(user);
  const head = listHead(
    isAsking ? "May this user do that?" : "May I do that?",
    "The broker asks itself what it would ask a client that tries, and does nothing.",
  );
  frame(place, user, "Access", head, accessTester({ user: isAsking ? null : user.name, first: user.name, signal }));
}
