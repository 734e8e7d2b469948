// node errors.mjs URL: what amqplib tells of errors; prints it as JSON.
import amqp from 'amqplib';

const url = process.argv[2];
const seen = {};

async function refused(connection, wrong) {
  const channel = await connection.createChannel();
  const error = new Promise((resolve) => channel.on('error', resolve));
  const closed = new Promise((resolve) => channel.on('close', resolve));
  const rejected = await wrong(channel).then(() => null, (problem) => problem);
  const [event] = await Promise.all([error, closed]);
  return { event: [event.code, event.message], rejected: rejected === null ? null : rejected.code };
}

const connection = await amqp.connect(url);
const steady = await connection.createChannel();
await steady.assertQueue('strict', { durable: true, messageTtl: 1000 });
seen.missing = await refused(connection, (channel) => channel.checkQueue('nowhere'));
seen.differs = await refused(connection, (channel) => channel.assertQueue('strict', { durable: true, messageTtl: 2000 }));
seen.unknownTag = await refused(connection, async (channel) => {
  channel.ack({ fields: { deliveryTag: 17 } });
});
seen.noExchange = await refused(connection, async (channel) => {
  channel.publish('nowhere', 'key', Buffer.from(''));
});
seen.steady = (await steady.checkQueue('strict')).queue;

// an error of the connection: a consumer tag in use
const problem = new Promise((resolve) => connection.on('error', resolve));
const over = new Promise((resolve) => connection.on('close', resolve));
steady.on('error', () => {});
await steady.consume('strict', () => {}, { consumerTag: 'twice' });
steady.consume('strict', () => {}, { consumerTag: 'twice' }).catch(() => {});
seen.connection = (await problem).code;
await over;

seen.vhost = await amqp.connect(url.replace(/%2F$/, 'nowhere')).then(() => null, (refusal) => refusal.message);
console.log(JSON.stringify(seen));
