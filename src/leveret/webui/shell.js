// The frame around every page: menu, search, theme switch and current user.

import { alarmBanner } from "./alarm_banner.js";
import { COOKIE_PATH, onHealth, onNodes, post } from "./api.js";
import { fill, fillFor, h, s } from "./dom.js";
import { problemBox } from "./notices.js";
import { Router } from "./router.js";
import { Search } from "./search.js";
import { pressed, showHelp } from "./shortcuts.js";
import { chooseTheme, chosenTheme, THEMES } from "./theme.js";

/** @typedef {import("./router.js").Page} Page */

const EARS = "M11 15C8 9 8 4 10.5 4S14 9 14.5 14h3C18 9 19 4 21.5 4S24 9 21 15";
const HEAD = "c2.5 1.5 4 4 4 6.5 0 4-4 6.5-9 6.5s-9-2.5-9-6.5c0-2.5 1.5-5 4-6.5z";
/** @type {Record<string, string>} */
const THEME_NAMES = { auto: "Auto", light: "Light", dark: "Dark" };

export class Shell {
  #leaving = new AbortController();
  #stopping = new AbortController();
  #isMoving = false; // false for the first page after the login
  #router;
  #search;

  /**
   * `whenOut` is called after the logout.
   * @param {Page[]} pages
   * @param {import("./search.js").Found[]} actions of the search
   * @param {import("./router.js").User} user
   * @param {() => void} whenOut
   */
  constructor(pages, actions, user, whenOut) {
    this.user = user;
    const leave = { title: "Log out", hint: "action", act: () => this.#logOut(whenOut) };
    const allowed = pages.filter((page) => page.isFor?.(user) ?? true);
    this.#search = new Search(allowed, hasSession(user) ? [...actions, leave] : actions);
    this.main = h("main", { id: "main", tabindex: "-1" });
    this.health = h("div", { class: "health", role: "alert", hidden: true });
    this.missing = h("div", { class: "health", role: "alert", hidden: true });
    this.links = allowed.filter((page) => page.nav).map((page) => h("a", { href: `#${page.path}` }, page.nav));
    const skip = h(
      "button",
      { type: "button", class: "skip strong", onclick: () => this.main.focus() },
      "Skip to content",
    );
    this.element = h(
      "div",
      { class: "shell" },
      skip,
      this.#side(whenOut),
      h("div", { class: "content" }, this.health, this.missing, alarmBanner(this.#stopping.signal), this.main),
      this.#search.element,
    );
    this.#router = new Router(pages, (page, parameters) => this.#show(page, parameters));
  }

  start() {
    document.addEventListener("keydown", this.#pressed);
    onHealth((problem) => this.#showHealth(problem));
    onNodes((nodes, missing) => this.#showNodes(nodes, missing));
    this.#router.start();
  }

  stop() {
    document.removeEventListener("keydown", this.#pressed);
    this.#leaving.abort();
    this.#stopping.abort();
    this.#router.stop();
  }

  /** @param {() => void} whenOut */
  #side(whenOut) {
    const theme = h("button", { type: "button", class: "quiet theme", title: "Switch between light and dark theme" });
    const name = () => fill(theme, "◐", h("span", {}, ` ${THEME_NAMES[chosenTheme()]}`));
    theme.addEventListener("click", () => {
      chooseTheme(THEMES[(THEMES.indexOf(chosenTheme()) + 1) % THEMES.length]);
      name();
    });
    name();
    const out = () => this.#logOut(whenOut);
    return h(
      "header",
      { class: "side" },
      h("a", { class: "brand", href: "#/" }, logo(), "Leveret"),
      h(
        "button",
        { type: "button", class: "find", onclick: () => this.#search.open() },
        h("span", {}, "Search"),
        h("kbd", {}, "Ctrl K"),
      ),
      h("nav", { "aria-label": "Pages" }, this.links),
      h(
        "div",
        { class: "foot" },
        h("span", { class: "user", title: this.user.tags?.join(", ") }, this.user.name),
        theme,
        hasSession(this.user) && h("button", { type: "button", class: "quiet", onclick: out }, "Log out"),
        h(
          "div",
          { class: "foot-links" },
          h("a", { class: "quiet-link", href: "#/api" }, "API"),
          h("button", { type: "button", class: "quiet", onclick: showHelp }, "Help"),
        ),
      ),
    );
  }

  /** @param {() => void} whenOut */
  async #logOut(whenOut) {
    // An expired session is logged out already.
    await post("/api/logout", {}, { headers: COOKIE_PATH }).catch(() => {});
    whenOut();
  }

  /** @param {KeyboardEvent} event */
  #pressed = (event) => pressed(event, () => this.#search.open());

  /**
   * @param {Page | null} page
   * @param {Record<string, string>} parameters
   */
  #show(page, parameters) {
    this.#leaving.abort();
    this.#leaving = new AbortController();
    const current = page?.nav ?? page?.under;
    for (const link of this.links) {
      if (link.textContent === current) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    const title = page ? page.title(parameters) : "Not found";
    document.title = `${title} · Leveret`;
    window.scrollTo(0, 0);
    if (!page) {
      fill(
        this.main,
        problemBox({
          title: "Page not found",
          reason: `There is no page at ${location.hash}: choose a page from the menu, or search with Ctrl-K.`,
        }),
      );
      return;
    }
    fill(this.main);
    page.show(this.main, parameters, this.#leaving.signal, this.user);
    if (this.#isMoving) this.main.focus({ preventScroll: true }); // Tab continues in the new page
    this.#isMoving = true;
  }

  /**
   * Lists show the node of each object only if there are several.
   * @param {string[]} nodes
   * @param {string[]} missing
   */
  #showNodes(nodes, missing) {
    document.documentElement.classList.toggle("several-nodes", nodes.length > 1);
    this.missing.hidden = !missing.length;
    const names = missing.join(", ");
    if (missing.length)
      fillFor(this.missing, names, () => [
        h("strong", {}, missing.length > 1 ? "Nodes not responding:" : "Node not responding:"),
        ` ${names}. Lists and totals are incomplete.`,
      ]);
  }

  /** @param {import("./api.js").ApiError | null} problem */
  #showHealth(problem) {
    this.health.hidden = !problem;
    if (problem)
      fillFor(this.health, [problem.title, problem.reason], () => [
        h("strong", {}, problem.title),
        " ",
        problem.reason,
      ]);
  }
}

/**
 * Whether the user has logged in here. A proxy that authenticates users sends credentials with each request: the UI
 * cannot log such a user out.
 * @param {import("./router.js").User} user
 */
export function hasSession(user) {
  return user.has_session !== false;
}

/** The logo. */
export function logo() {
  return s("svg", { viewBox: "0 0 32 32", class: "mark", "aria-hidden": "true" }, s("path", { d: EARS + HEAD }));
}
