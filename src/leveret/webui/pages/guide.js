// The guide of this version. The address of a section is "#/docs/NAME?section=SLUG".

import { ApiError, ROOT } from "../api.js";
import { fill, h } from "../dom.js";
import { markdown } from "../markdown.js";
import { showProblem } from "../notices.js";
import { link } from "../router.js";

const INDEX = "README";

export const path = "/docs/:name";
export const title = (parameters) => `Guide: ${parameters.name}`;

export async function show(place, { name }, signal) {
  const trouble = h("div", {});
  const page = h("article", { class: "guide" });
  const above = name !== INDEX && h("p", { class: "faint" }, h("a", { href: "#/docs" }, "Guide"), " /");
  fill(place, above, trouble, page);
  try {
    fill(
      page,
      markdown(await textOf(name, signal), (target) => addressOf(target, name)),
    );
    const section = new URLSearchParams(location.hash.split("?")[1]).get("section");
    if (section) document.getElementById(section)?.scrollIntoView();
  } catch (problem) {
    if (problem.name !== "AbortError") showProblem(trouble, problem);
  }
}

/** The list of all pages. */
export const index = {
  path: "/docs",
  title: () => "Guide",
  show: (place, _parameters, signal) => show(place, { name: INDEX }, signal),
};

async function textOf(name, signal) {
  const response = await fetch(`${ROOT}web/guide/${encodeURIComponent(name)}.md`, { signal });
  if (response.ok) return response.text();
  throw new ApiError(
    response.status,
    "Page not found",
    `The guide has no page '${name}'. Open the guide's list of pages.`,
  );
}

/** Links to other files of the source code lead nowhere here. */
function addressOf(target, name) {
  if (/^https?:/.test(target)) return target;
  const [, file, section] = /^([\w-]*)(?:\.md)?(?:#(.+))?$/.exec(target) ?? [];
  if (file === undefined) return null;
  const address = file === INDEX ? "#/docs" : link`/docs/${file || name}`;
  return section ? `${address}?section=${encodeURIComponent(section)}` : address;
}
