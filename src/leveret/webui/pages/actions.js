// What the search can do besides opening a page.

import { showHelp } from "../shortcuts.js";
import { chooseTheme } from "../theme.js";
import { isAdministrator, writesPolicies } from "./admin_frame.js";
import { addUser } from "./admin_users.js";
import { addVhost } from "./admin_vhosts.js";
import { addExchange } from "./exchanges.js";
import { addQueue } from "./queues.js";
import { addStream } from "./streams.js";

/** Entries of the search (search.js) that the user may use. */
export function actionsFor(user) {
  const opens = (title, address) => ({ title, hint: "page", address });
  const does = (title, act) => ({ title, hint: "action", act });
  const own = [
    does("Add queue", addQueue),
    does("Add exchange", addExchange),
    does("Add stream", addStream),
    opens("HTTP API", "/api"),
    does("Keyboard shortcuts and help", showHelp),
    does("Dark theme", () => chooseTheme("dark")),
    does("Light theme", () => chooseTheme("light")),
    does("Theme of the system", () => chooseTheme("auto")),
  ];
  const policies = writesPolicies(user) ? [opens("Add policy", "/admin/policy")] : [];
  const administration = isAdministrator(user)
    ? [
        does("Add user", addUser),
        does("Add virtual host", addVhost),
        opens("Log of the node", "/log"),
        opens("Add operator policy", "/admin/operator-policy"),
        opens("Export definitions", "/admin/definitions"),
        opens("Import definitions", "/admin/definitions"),
      ]
    : [];
  return [...own, ...policies, ...administration];
}
