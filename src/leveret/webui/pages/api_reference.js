// The HTTP API, from its OpenAPI document.

import { get, ROOT } from "../api.js";
import { copyButton } from "../clipboard.js";
import { fill, h, setText } from "../dom.js";
import { plural } from "../format.js";
import { badge, pageHead } from "../layout.js";
import { showProblem } from "../notices.js";

export const path = "/api";
export const title = () => "HTTP API";

export async function show(place, _parameters, signal, user) {
  const trouble = h("div", {});
  const filter = h("input", { type: "search", placeholder: "Filter by path or summary", "aria-label": "Filter" });
  const count = h("span", { class: "faint" });
  const list = h("div", { class: "stacked" });
  const about = [
    "All endpoints of this broker: RabbitMQ's management API, with extensions. As a document for tools: ",
    h("a", { href: `${ROOT}api/openapi.json` }, "openapi.json"),
    ".",
  ];
  fill(place, pageHead("HTTP API", about), trouble, h("div", { class: "table-tools" }, filter, count), list);
  try {
    const operations = operationsOf(await get("/api/openapi.json", undefined, { signal }));
    const draw = () => {
      const wanted = filter.value.trim().toLowerCase();
      const shown = operations.filter((one) => one.words.includes(wanted));
      setText(count, plural(shown.length, "endpoint"));
      fill(list, sections(shown, user));
    };
    filter.addEventListener("input", draw);
    draw();
  } catch (problem) {
    if (problem.name !== "AbortError") showProblem(trouble, problem);
  }
}

function operationsOf(document) {
  return Object.entries(document.paths).flatMap(([address, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      address,
      method: method.toUpperCase(),
      operation,
      words: `${method} ${address} ${operation.summary}`.toLowerCase(),
    })),
  );
}

function sections(operations, user) {
  const tags = Map.groupBy(operations, (one) => one.operation.tags[0]);
  return [...tags].map(([tag, some]) =>
    h(
      "section",
      {},
      h("h2", {}, tag),
      h(
        "div",
        { class: "card operations" },
        some.map((one) => operationItem(one, user)),
      ),
    ),
  );
}

function operationItem({ address, method, operation }, user) {
  const content = h("div", { class: "operation" });
  const element = h(
    "details",
    {},
    h(
      "summary",
      {},
      badge(method, method === "GET" ? "" : "strong"),
      h("code", {}, address),
      h("span", { class: "faint" }, operation.summary),
    ),
    content,
  );
  element.addEventListener("toggle", () => {
    if (!content.hasChildNodes()) fill(content, operationDetails(address, method, operation, user));
  });
  return element;
}

function operationDetails(address, method, operation, user) {
  const example = curlExample(address, method, operation, user);
  return [
    h("p", {}, operation.description),
    operation.parameters.length > 0 && parameterTable(operation.parameters),
    operation.requestBody && h("p", {}, "Request body: ", h("code", {}, bodyText(operation.requestBody))),
    h(
      "p",
      {},
      "Responses: ",
      Object.entries(operation.responses).map(([status, answer], at) => [
        at > 0 && ", ",
        h("code", { title: answer.description }, status),
      ]),
    ),
    h("pre", { tabindex: "0" }, example),
    copyButton(example),
  ];
}

function parameterTable(parameters) {
  return h(
    "table",
    { class: "parameters" },
    h("thead", {}, h("tr", {}, h("th", {}, "Parameter"), h("th", {}, "In"), h("th", {}, "Meaning"))),
    h(
      "tbody",
      {},
      parameters.map((one) =>
        h(
          "tr",
          {},
          h("td", {}, h("code", {}, one.name), one.required && " (required)"),
          h("td", {}, one.in),
          h("td", {}, meaning(one.schema)),
        ),
      ),
    ),
  );
}

function meaning(schema) {
  const values = schema.enum ? `one of ${schema.enum.join(", ")}` : "";
  return [schema.description, values || [schema.type].flat().join(" or ")].filter(Boolean).join(": ");
}

function bodyText(body) {
  const [[kind, { schema }]] = Object.entries(body.content);
  const fields = Object.keys(schema.properties ?? {});
  return fields.length ? `{${fields.map((name) => `"${name}": …`).join(", ")}}` : kind;
}

function curlExample(address, method, operation, user) {
  const place = `${location.origin}${ROOT.slice(0, -1)}${address.replace("{vhost}", "%2F")}`;
  const login = operation.security?.length === 0 ? "" : `-u ${user.name} `;
  const literally = place.includes("{") ? "-g " : ""; // without -g, curl takes braces for a pattern
  const asked = method === "GET" ? "" : `-X ${method} `;
  const body = operation.requestBody ? " -H 'content-type: application/json' -d '{}'" : "";
  return `curl ${literally}${login}${asked}'${place}'${body}`;
}
