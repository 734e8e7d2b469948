// stompjs over WebSocket: sends, receipts, acks and nacks, a transaction, an error. Prints what it saw as JSON.
import { Client } from "@stomp/stompjs";
import { WebSocket } from "ws";

const seen = { bodies: [] };

function connected(passcode = "guest") {
  return new Promise((resolve, reject) => {
    const client = new Client({
      webSocketFactory: () => new WebSocket(process.argv[2], ["v12.stomp", "v11.stomp"]),
      connectHeaders: { login: "guest", passcode, host: "/" },
      heartbeatIncoming: 500,
      heartbeatOutgoing: 500,
      reconnectDelay: 0,
      onConnect: () => resolve(client),
      onStompError: (frame) => reject(frame),
    });
    client.activate();
  });
}

function received(client, receipt, act) {
  return new Promise((resolve) => {
    client.watchForReceipt(receipt, () => resolve(receipt));
    act();
  });
}

const client = await connected();
seen.version = client.connectedVersion;

const body = "grüße \u{1F407}";
seen.receipt = await received(client, "r-1", () =>
  client.publish({ destination: "/queue/js", body, headers: { receipt: "r-1", odd: "a:b\nc" } }));
seen.deliveries = await new Promise((resolve) => {
  const deliveries = [];
  client.subscribe("/queue/js", (message) => {
    deliveries.push([message.body, message.headers.redelivered, message.headers.odd]);
    if (deliveries.length === 1) message.nack();
    else {
      message.ack();
      resolve(deliveries);
    }
  }, { ack: "client-individual", id: "mine" });
});

const binary = new Uint8Array([0, 1, 255, 0, 10]);
seen.binary = await new Promise((resolve) => {
  client.subscribe("/topic/bytes.*", (message) => resolve([...message.binaryBody]));
  client.publish({ destination: "/topic/bytes.x", binaryBody: binary, skipContentLengthHeader: false });
});

const transaction = client.begin();
client.publish({ destination: "/queue/js-tx", body: "in", headers: { transaction: transaction.id } });
transaction.commit();
seen.committed = await new Promise((resolve) =>
  client.subscribe("/queue/js-tx", (message) => resolve(message.body)));

await client.deactivate();
seen.refused = await connected("wrong").catch((frame) => frame.headers.message);
console.log(JSON.stringify(seen));
process.exit(0);
