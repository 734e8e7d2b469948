// Login with OpenID Connect: to the identity provider, and back from it.

import { COOKIE_PATH, get, post, ROOT } from "./api.js";
import { fill, h } from "./dom.js";
import { problemBox } from "./notices.js";

const PAGE = "leveret-page-after-login"; // key of the session storage

/** "Sign in with ...", filled in once it is known that the broker has an identity provider. */
export function signInChoice() {
  const place = h("div", { class: "sign-on" });
  get("/api/auth", undefined, { isLogin: true }).then(
    ({ oidc_provider_name: name }) => name && fill(place, ...choice(name)),
    () => {}, // the login form shows that the broker does not respond
  );
  return place;
}

/** @param {string} provider */
function choice(provider) {
  const trouble = h("div", { class: "trouble" });
  const button = h("button", { type: "button", onclick: () => leave() }, `Sign in with ${provider}`);
  const leave = async () => {
    button.disabled = true;
    fill(trouble);
    try {
      const { location: address } = await post("/api/login/oidc/start", {}, { isLogin: true, headers: COOKIE_PATH });
      sessionStorage.setItem(PAGE, location.hash);
      location.assign(address);
    } catch (problem) {
      fill(trouble, problemBox(problem));
    }
    button.disabled = false;
  };
  return [h("p", { class: "faint" }, "or"), trouble, button];
}

/** The response of the identity provider in the address of this page, or null. */
export function providerResponse() {
  const query = new URLSearchParams(location.search);
  if (!query.has("state") || !(query.has("code") || query.has("error"))) return null;
  const names = ["state", "code", "iss", "error", "error_description"];
  return Object.fromEntries(names.filter((name) => query.has(name)).map((name) => [name, query.get(name)]));
}

/**
 * The user of the new session. The response leaves the address and the history of the browser: it is for one use.
 * @param {Record<string, string | null>} response
 */
export function completeLogin(response) {
  const page = sessionStorage.getItem(PAGE) ?? "";
  sessionStorage.removeItem(PAGE);
  history.replaceState(null, "", ROOT + (page.startsWith("#/") ? page : ""));
  return post("/api/login/oidc", response, { isLogin: true, headers: COOKIE_PATH });
}
