// Changes of a user: tags, password, deletion.

import { path as at, get, put } from "../api.js";
import { deleteAndLeave } from "../deletion.js";
import { h } from "../dom.js";
import { check, dialog, field, form } from "../forms.js";
import { notify, notifyError, undoable } from "../notices.js";
import { passwordInput } from "../password_input.js";

const ROLES = {
  administrator: "administrator: full access",
  monitoring: "monitoring: sees all virtual hosts, connections and nodes",
  policymaker: "policymaker: manages policies in its own virtual hosts",
  management: "management: uses the management UI for its own virtual hosts",
  impersonator: "impersonator: publishes messages with the user-id of other users",
};

/** Checkboxes for the tags that the broker uses, and a field for other tags. */
export function tagFields(tags) {
  const others = tags.filter((tag) => !(tag in ROLES));
  return h(
    "fieldset",
    {},
    h("legend", {}, "Tags"),
    Object.entries(ROLES).map(([role, label]) => check(label, `tag-${role}`, tags.includes(role))),
    field(
      "Other tags",
      h("input", { name: "other-tags", value: others.join(", "), autocomplete: "off", spellcheck: "false" }),
      "Comma-separated; the broker does not use them.",
    ),
  );
}

export function tagsOf(given) {
  const others = given
    .get("other-tags")
    .split(",")
    .map((tag) => tag.trim())
    .filter(Boolean);
  return [...Object.keys(ROLES).filter((role) => given.has(`tag-${role}`)), ...others];
}

/** A PUT replaces the whole user, so the password hash is sent back unchanged. */
export async function changeTags(name, whenDone) {
  const user = await get(at`/api/users/${name}`).catch(notifyError);
  if (!user) return;
  const close = dialog(
    `Change tags of ${name}`,
    form([tagFields(user.tags)], "Change tags", async (given) => {
      const { password_hash, hashing_algorithm } = await get(at`/api/users/${name}`);
      const secret = password_hash ? { password_hash, hashing_algorithm } : {};
      await put(at`/api/users/${name}`, { ...secret, tags: tagsOf(given) });
      close();
      notify(`Tags of user ${name} changed.`);
      whenDone();
    }),
  );
}

export function changePassword(name) {
  const close = dialog(
    `Change password of ${name}`,
    form(
      [
        field(
          "New password",
          passwordInput({ required: true, "aria-label": "New password" }),
          "Open connections stay open; the next login requires the new password.",
        ),
      ],
      "Change password",
      async (given) => {
        const { tags } = await get(at`/api/users/${name}`);
        await put(at`/api/users/${name}`, { tags, password: given.get("password") });
        close();
        notify(`Password of user ${name} changed.`);
      },
    ),
  );
}

export function deleteUser(name, leaving) {
  undoable(`User ${name} and its permissions will be deleted and its connections closed`, async () => {
    await deleteAndLeave(at`/api/users/${name}`, "/admin/users", leaving);
    notify(`User ${name} deleted.`);
  });
}
