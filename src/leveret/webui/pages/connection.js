// One connection: client, data rates, channels; and closing it.

import { path as at, get } from "../api.js";
import { lineChart, rateSeries } from "../chart.js";
import { deleteAndLeave } from "../deletion.js";
import { fill, h, setText } from "../dom.js";
import { facts } from "../facts.js";
import { byteRate, bytes, number } from "../format.js";
import { dialog, field, form } from "../forms.js";
import { badge, objectHead, section } from "../layout.js";
import { endTrouble, notify, showTrouble } from "../notices.js";
import { poll } from "../poll.js";
import { Tiles } from "../tiles.js";
import { objectRanges } from "../time_range.js";
import { isAdministrator } from "./admin_frame.js";
import { channelsTable } from "./channels.js";
import { clientOf, moment, stateBadge } from "./connection_format.js";

export const path = "/connections/:name";
export const under = "Connections";
export const title = ({ name }) => name;

const REASON = "Closed by an operator";
const TRAFFIC = { "From client": "recv_oct", "To client": "send_oct" };

export function show(place, { name }, signal, user) {
  const address = at`/api/connections/${name}`;
  const view = new View(name, user);
  const refresh = poll(
    signal,
    async () => view.show(await get(address, objectRanges.query("msg_rates"), { signal })),
    (problem) => view.fail(problem),
  );
  view.close.addEventListener("click", () => closeDialog(name, address, signal));
  fill(
    place,
    view.head,
    view.trouble,
    view.tiles.element,
    h("div", { class: "chart-tools" }, objectRanges.buttons(refresh)),
    h("div", { class: "charts" }, view.traffic.element, view.client),
    section("Channels", channelsTable(`${address}/channels`, signal)),
    view.facts,
  );
}

class View {
  constructor(name, user) {
    this.user = user;
    this.title = h("span", {}, name);
    this.state = h("span", {});
    this.close = h("button", { type: "button", class: "danger" }, "Close connection …");
    this.head = objectHead(this.title, [`connection ${name} `, this.state], this.close);
    this.trouble = h("div", {});
    this.tiles = new Tiles("User", "Virtual host", "Channels", "Received", "Sent", "Send pending");
    this.traffic = lineChart("Data rates");
    this.properties = h("dl", {});
    this.capabilities = h("div", { class: "capabilities" });
    this.client = h("div", { class: "card" }, h("h2", {}, "Client"), this.properties, this.capabilities);
    this.table = h("dl", {});
    this.facts = h(
      "details",
      { class: "card facts", open: true },
      h("summary", {}, "Negotiated parameters"),
      this.table,
    );
  }

  show(connection) {
    endTrouble(this.trouble);
    this.close.disabled = false;
    this.close.hidden = !isAdministrator(this.user) && connection.user !== this.user.name;
    setText(this.title, clientOf(connection));
    fill(this.state, stateBadge(connection.state));
    this.tiles.show({
      User: connection.user,
      "Virtual host": connection.vhost,
      Channels: number(connection.channels),
      Received: bytes(connection.recv_oct),
      Sent: bytes(connection.send_oct),
      "Send pending": bytes(connection.send_pend),
    });
    this.traffic.draw(rateSeries(connection, TRAFFIC), byteRate, objectRanges.current.age);
    this.#showClient(connection.client_properties ?? {});
    fill(this.table, facts(agreedIn(connection)));
  }

  #showClient({ capabilities = {}, ...properties }) {
    fill(this.properties, facts(properties));
    const known = Object.entries(capabilities ?? {})
      .filter(([, isThere]) => isThere)
      .map(([name]) => name);
    fill(this.capabilities, known.length > 0 && [h("h3", {}, "Capabilities"), known.map((name) => badge(name))]);
  }

  fail(problem) {
    this.close.disabled = problem.status === 404;
    showTrouble(this.trouble, problem, "All connections", "#/connections");
  }
}

function agreedIn(connection) {
  return {
    node: connection.node,
    protocol: connection.protocol,
    "connected at": moment(connection.connected_at),
    authentication: connection.auth_mechanism,
    heartbeat: connection.timeout ? `${connection.timeout} s` : "disabled",
    "frame max": bytes(connection.frame_max),
    "channel max": number(connection.channel_max),
    TLS: connection.ssl ? `${connection.ssl_protocol} ${connection.ssl_cipher}` : "no",
    ...(connection.peer_cert_subject
      ? { certificate: connection.peer_cert_subject, "certificate validity": connection.peer_cert_validity }
      : {}),
  };
}

function closeDialog(name, address, leaving) {
  const reason = h("input", {
    name: "reason",
    value: REASON,
    maxlength: "200",
    pattern: "[ -~]*",
    title: "ASCII only (sent as an HTTP header)",
  });
  const close = dialog(
    "Close connection",
    form(
      [
        h(
          "p",
          {},
          "Its channels are closed and its unacknowledged messages requeued. Most clients reconnect automatically.",
        ),
        field("Reason", reason, "Sent to the client and written to the log."),
      ],
      "Close connection",
      async (given) => {
        await deleteAndLeave(address, "/connections", leaving, {
          headers: { "X-Reason": given.get("reason").trim() || REASON },
        });
        close();
        notify(`Connection ${name} closed.`);
      },
    ),
  );
  reason.select();
}
