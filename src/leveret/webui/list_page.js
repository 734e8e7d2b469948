// Parts of list pages: the table of one or all virtual hosts, columns of names, the search, and adding an object.

import { get } from "./api.js";
import { h } from "./dom.js";
import { choice, dialog, field, form } from "./forms.js";
import { fuzzyPattern } from "./fuzzy.js";
import { nameLink } from "./layout.js";
import { notify } from "./notices.js";
import { go } from "./router.js";
import { Table } from "./table.js";
import { keptVhost, vhostChoice, vhostNames } from "./vhosts.js";

const FOUND = 12;

/**
 * @typedef {import("./table.js").Column} Column
 * @typedef {{ title: string, hint: string, address: string }} Found
 */

/** @type {Column} */
export const VHOST = { title: "Vhost", sort: "vhost", rank: 4, width: "s", value: (row) => row.vhost };

/**
 * Shown if there are several nodes.
 * @type {Column}
 */
export const NODE = { title: "Node", sort: "node", rank: 3, width: "node", value: (row) => row.node };

/**
 * The name of an object as a link. If the list is too narrow for the column of virtual hosts, the name of a virtual
 * host other than / follows: different virtual hosts may have objects of the same name.
 * @param {(vhost: string, name: string) => string} address
 * @param {(name: string) => string} shown
 * @returns {Column}
 */
export function nameColumn(address, shown = (name) => name) {
  return {
    title: "Name",
    sort: "name",
    width: "name",
    value: (row) => [row.vhost, row.name],
    show: ([vhost, name]) => [
      nameLink(address(vhost, name), shown(name)),
      vhost !== "/" && h("small", { class: "where faint" }, ` in ${vhost}`),
    ],
  };
}

/**
 * A list of the API, such as "queues", in the selected virtual host or in all.
 * @param {string} kind
 */
export function listAddress(kind) {
  const vhost = keptVhost();
  return vhost ? `/api/${kind}/${encodeURIComponent(vhost)}` : `/api/${kind}`;
}

/**
 * A source for a Table: these fields of a list of the API.
 * @param {string} kind
 * @param {string} columns
 * @returns {import("./table.js").Source}
 */
export function listSource(kind, columns) {
  return (question, signal) => get(listAddress(kind), { ...question, columns }, { signal });
}

/**
 * A table with a select for the virtual host. Filter and order are kept in the URL.
 * @param {import("./table.js").TableOptions & { placeholder?: string }} options
 */
export function listTable({ placeholder, ...options }) {
  const table = new Table({ sort: "name", isKept: true, ...options });
  if (placeholder) table.search.placeholder = placeholder;
  table.tools.append(vhostChoice(options.signal, () => table.restart()));
  return table;
}

/**
 * Finds objects of a list by name, for the search over all pages.
 * @param {string} kind
 * @param {string} columns
 * @param {(row: any) => Found} found
 */
export function finder(kind, columns, found) {
  /**
   * @param {string} text
   * @param {AbortSignal} signal
   * @returns {Promise<Found[]>}
   */
  return async (text, signal) => {
    const query = { page: 1, page_size: FOUND, sort: "name", columns };
    return (await similar(`/api/${kind}`, query, text, signal)).map(found);
  };
}

/**
 * Rows of a list whose name contains the text; if they are few, also those that have its letters in this order.
 * @param {string} address
 * @param {import("./api.js").Query} query
 * @param {string} text
 * @param {AbortSignal} signal
 * @returns {Promise<any[]>}
 */
export async function similar(address, query, text, signal) {
  const { items } = await get(address, { ...query, name: text }, { signal });
  if (items.length >= FOUND || text.length < 3) return items;
  const further = await get(address, { ...query, name: fuzzyPattern(text), use_regex: true }, { signal });
  const known = new Set(items.map((/** @type {any} */ row) => JSON.stringify([row.vhost, row.name])));
  const others = further.items.filter((/** @type {any} */ row) => !known.has(JSON.stringify([row.vhost, row.name])));
  return [...items, ...others];
}

/** A field for a virtual host, preset to the selected one. */
export async function vhostField() {
  const names = await vhostNames();
  const options = names.length ? names : ["/"];
  return field("Virtual host", choice("vhost", options, keptVhost() || options[0]));
}

/**
 * A dialog that adds an object. `add` creates it and returns the page to open next, and the confirmation to show.
 * @param {string} noun
 * @param {import("./dom.js").Child[]} fields
 * @param {(given: import("./forms.js").Given) => Promise<{ address: string, text: string }>} add
 */
export function additionDialog(noun, fields, add) {
  const action = `Add ${noun}`;
  const content = form(fields, action, async (given) => {
    const { address, text } = await add(given);
    close();
    notify(text);
    go(address.slice(1));
  });
  const close = dialog(action, content);
}

/**
 * Throws if the list already has an object of this name: a PUT would change the existing object, or keep it.
 * @param {string} address
 * @param {string} noun
 * @param {string} name
 * @param {{ where?: string, remedy?: string }} [texts]
 */
export async function refuseExisting(address, noun, name, { where = "", remedy = "choose another name" } = {}) {
  const pattern = `^${name.replace(/[^\p{L}\p{N}]/gu, "\\$&")}$`; // only this name, however many others contain it
  const { items } = await get(address, { page: 1, page_size: 500, columns: "name", name: pattern, use_regex: true });
  if (items.some((/** @type {any} */ one) => one.name === name))
    throw { title: `${noun} not added`, reason: `${noun} ${name} already exists${where}: ${remedy}.` };
}
