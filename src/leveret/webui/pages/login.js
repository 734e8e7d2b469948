// Login form. The requested page is shown after the login.

import { COOKIE_PATH, post } from "../api.js";
import { fill, h } from "../dom.js";
import { field, form } from "../forms.js";
import { problemBox } from "../notices.js";
import { logo } from "../shell.js";
import { signInChoice } from "../single_sign_on.js";

/**
 * `reason`: why there is no session any more; `problem`: why single sign-on failed.
 */
export function showLogin(place, enter, reason, problem) {
  document.title = "Log in · Leveret";
  const name = h("input", {
    name: "username",
    autocomplete: "username",
    required: true,
    autocapitalize: "none",
    spellcheck: "false",
  });
  const password = h("input", { name: "password", type: "password", autocomplete: "current-password", required: true });
  const login = form([field("User name", name), field("Password", password)], "Log in", async (given) => {
    const user = await post(
      "/api/login",
      { username: given.get("username"), password: given.get("password") },
      { isLogin: true, headers: COOKIE_PATH },
    );
    enter(user);
  });
  fill(
    place,
    h(
      "main",
      { class: "login" },
      h(
        "div",
        { class: "card" },
        h("h1", {}, logo(), "Leveret"),
        reason && h("p", { class: "faint" }, reason),
        problem && problemBox(problem),
        login,
        signInChoice(),
      ),
      isHere() && h("p", { class: "faint hint" }, "Default login on a new broker: guest / guest (localhost only)."),
    ),
  );
  name.focus();
}

function isHere() {
  return /^(localhost|127(\.\d+){3}|\[::1\])$/.test(location.hostname);
}
