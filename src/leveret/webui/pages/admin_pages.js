// All admin pages. The first has the menu entry.

import * as admin from "./admin.js";
import * as definitions from "./admin_definitions.js";
import * as limits from "./admin_limits.js";
import * as newOperatorPolicy from "./admin_operator_policy_new.js";
import * as access from "./admin_permission_check.js";
import * as policies from "./admin_policies.js";
import * as policy from "./admin_policy.js";
import * as newPolicy from "./admin_policy_new.js";
import * as user from "./admin_user.js";
import * as users from "./admin_users.js";
import * as vhost from "./admin_vhost.js";
import * as vhosts from "./admin_vhosts.js";

export const ADMIN = [
  admin,
  users,
  user,
  vhosts,
  vhost,
  access,
  policies,
  policy,
  newPolicy,
  newOperatorPolicy,
  limits,
  definitions,
];
