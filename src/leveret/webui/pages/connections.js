// All connections.

import { path as at, get } from "../api.js";
import { fill, h } from "../dom.js";
import { byteRate, number } from "../format.js";
import { nameText, pageHead } from "../layout.js";
import { listTable, NODE, VHOST } from "../list_page.js";
import { filteredSource } from "../local_filter.js";
import { numeric } from "../table.js";
import { keptVhost } from "../vhosts.js";
import { clientOf, connectionLink, moment, peerOf, stateBadge } from "./connection_format.js";

export const path = "/connections";
export const nav = "Connections";
export const title = () => "Connections";

const COLUMNS =
  "name,node,vhost,user,state,channels,protocol,ssl,ssl_protocol,ssl_cipher,auth_mechanism,timeout,connected_at," +
  "peer_host,peer_port,user_provided_name,client_properties.product,client_properties.version," +
  "recv_oct_details.rate,send_oct_details.rate";
const FOUND = 12;

/** The text that the filter searches. */
const textOf = (row) => [clientOf(row), row.name, row.user, row.vhost, row.node].join(" ");

export async function find(text, signal) {
  const ask = (question) => get("/api/connections", { ...question, columns: COLUMNS }, { signal });
  const source = filteredSource(ask, textOf);
  const answer = await source({ page: 1, page_size: FOUND, name: text, sort: "name" }, signal);
  return answer.items.map((one) => ({
    title: clientOf(one),
    hint: `connection of ${one.user} from ${peerOf(one)}`,
    address: connectionLink(one.name).slice(1),
  }));
}

export function show(place, _parameters, signal) {
  const ask = (question, signal) => {
    const vhost = keptVhost();
    const address = vhost ? at`/api/vhosts/${vhost}/connections` : "/api/connections";
    return get(address, { ...question, columns: COLUMNS }, { signal });
  };
  const table = listTable({
    columns: columns(),
    source: filteredSource(ask, textOf),
    signal,
    id: "connections",
    noun: "connection",
    placeholder: "Filter by client, user or address",
    empty: () => emptyState(signal),
  });
  fill(place, pageHead("Connections"), table.element);
}

function columns() {
  return [
    {
      title: "Client",
      sort: "user_provided_name",
      width: "name",
      value: (row) => [clientOf(row), row.name],
      show: ([client, name]) => h("a", { href: connectionLink(name), title: client }, nameText(client)),
    },
    { title: "Address", sort: "peer_host", rank: 2, width: "l", value: peerOf },
    { title: "User", sort: "user", width: "m", value: (row) => row.user },
    VHOST,
    NODE,
    { title: "State", sort: "state", width: "s", value: (row) => row.state, show: stateBadge },
    numeric("Channels", "channels", number, { rank: 2 }),
    numeric("From client", "recv_oct_details.rate", byteRate, { rank: 2 }),
    numeric("To client", "send_oct_details.rate", byteRate, { rank: 2 }),
    { title: "Protocol", sort: "protocol", rank: 3, width: "m", value: (row) => row.protocol },
    {
      title: "TLS",
      sort: "ssl_protocol",
      rank: 3,
      width: "xs",
      value: (row) => (row.ssl ? row.ssl_protocol || "yes" : "no"),
    },
    { title: "Cipher", sort: "ssl_cipher", rank: 5, width: "l", value: (row) => row.ssl_cipher },
    { title: "Authentication", sort: "auth_mechanism", rank: 5, width: "m", value: (row) => row.auth_mechanism },
    numeric("Heartbeat", "timeout", (seconds) => (seconds ? `${seconds} s` : "disabled"), { rank: 5 }),
    numeric("Connected at", "connected_at", moment, { rank: 4, width: "l" }),
  ];
}

/** Shows the address to connect to. */
function emptyState(signal) {
  const address = h("code", {}, `amqp://${location.hostname}:5672/`);
  get("/api/overview", { columns: "listeners" }, { signal }).then(
    (overview) => {
      const amqp = (overview.listeners ?? []).find((one) => one.protocol === "amqp");
      if (amqp) address.textContent = `amqp://${location.hostname}:${amqp.port}/`;
    },
    () => {}, // keep the default port
  );
  return h(
    "p",
    { class: "empty" },
    "No connections. Any RabbitMQ client can connect to ",
    address,
    ", for example pika: ",
    h("code", {}, "pika.BlockingConnection(pika.URLParameters(…))"),
  );
}
