// node round_trips.mjs URL: messages there and back by the promise API of amqplib; prints what it saw as JSON.
import amqp from 'amqplib';
import { once } from 'node:events';

const connection = await amqp.connect(process.argv[2]);
const seen = {};

// confirms: many under way, then waited for together
{
  const channel = await connection.createConfirmChannel();
  await channel.assertQueue('confirmed');
  for (let number = 0; number < 500; number++) channel.sendToQueue('confirmed', Buffer.from(String(number)));
  await channel.waitForConfirms();
  seen.confirmed = (await channel.checkQueue('confirmed')).messageCount;
  const returned = once(channel, 'return');
  channel.publish('amq.direct', 'nobody', Buffer.from('lost'), { mandatory: true, messageId: 'm-1' });
  const [message] = await returned;
  await channel.waitForConfirms();
  seen.returned = [message.fields.replyCode, message.fields.replyText, message.properties.messageId, message.content.toString()];
  await channel.close();
}

// consume: ack, nack with requeue, reject, and a prefetch of one
{
  const channel = await connection.createChannel();
  await channel.assertQueue('work');
  await channel.prefetch(1);
  for (const body of ['ack', 'again', 'drop', 'last']) channel.sendToQueue('work', Buffer.from(body));
  seen.deliveries = [];
  await new Promise((resolve) => {
    channel.consume('work', (message) => {
      const body = message.content.toString();
      seen.deliveries.push([body, message.fields.redelivered]);
      if (body === 'again' && !message.fields.redelivered) channel.nack(message, false, true);
      else if (body === 'drop') channel.reject(message, false);
      else channel.ack(message);
      if (body === 'last') resolve();
    });
  });
  seen.left = (await channel.checkQueue('work')).messageCount;
  await channel.close();
}

// get, purge, delete
{
  const channel = await connection.createChannel();
  const { queue } = await channel.assertQueue('', { exclusive: true });
  seen.empty = await channel.get(queue);
  channel.sendToQueue(queue, Buffer.from('one'), { headers: { a: 1, b: [true, null, 'x'], c: { d: -1.5 } }, persistent: true });
  channel.sendToQueue(queue, Buffer.from('two'));
  const one = await channel.get(queue);
  seen.got = [one.content.toString(), one.fields.messageCount, one.properties.headers, one.properties.deliveryMode];
  channel.ackAll();
  seen.purged = (await channel.purgeQueue(queue)).messageCount;
  seen.deleted = (await channel.deleteQueue(queue)).messageCount;
  await channel.close();
}

// request and reply through the direct reply queue
{
  const server = await connection.createChannel();
  await server.assertQueue('squares');
  await server.consume('squares', (request) => {
    const answer = Buffer.from(String(Number(request.content) ** 2));
    server.sendToQueue(request.properties.replyTo, answer, { correlationId: request.properties.correlationId });
    server.ack(request);
  });
  const client = await connection.createChannel();
  const replies = {};
  await new Promise((resolve) => {
    client.consume('amq.rabbitmq.reply-to', (reply) => {
      replies[reply.properties.correlationId] = Number(reply.content);
      if (Object.keys(replies).length === 10) resolve();
    }, { noAck: true });
    for (let number = 0; number < 10; number++) {
      client.sendToQueue('squares', Buffer.from(String(number)), { replyTo: 'amq.rabbitmq.reply-to', correlationId: `id-${number}` });
    }
  });
  seen.replies = replies;
  await client.close();
  await server.close();
}

// headers exchange, exchange-to-exchange
{
  const channel = await connection.createChannel();
  await channel.assertExchange('entry', 'fanout');
  await channel.assertExchange('reports', 'headers');
  await channel.bindExchange('reports', 'entry', '');
  const all = (await channel.assertQueue('', { exclusive: true })).queue;
  const any = (await channel.assertQueue('', { exclusive: true })).queue;
  await channel.bindQueue(all, 'reports', '', { 'x-match': 'all', format: 'pdf', pages: 4 });
  await channel.bindQueue(any, 'reports', '', { 'x-match': 'any', format: 'pdf', pages: 4 });
  for (const headers of [{ format: 'pdf', pages: 4 }, { format: 'pdf' }, { format: 'zip' }]) {
    channel.publish('entry', '', Buffer.from(''), { headers });
  }
  seen.all = (await channel.checkQueue(all)).messageCount;
  seen.any = (await channel.checkQueue(any)).messageCount;
  await channel.close();
}

// a large body through whatever frame size the URL asks for
{
  const channel = await connection.createChannel();
  const { queue } = await channel.assertQueue('', { exclusive: true });
  const body = Buffer.alloc(1 << 20, 'leveret ');
  channel.sendToQueue(queue, body);
  const back = await channel.get(queue, { noAck: true });
  seen.large = Buffer.compare(back.content, body) === 0;
  await channel.close();
}

// a consumer hears that its queue was deleted: amqplib delivers null
{
  const channel = await connection.createChannel();
  await channel.assertQueue('doomed');
  const cancelled = new Promise((resolve) => channel.consume('doomed', resolve));
  await channel.deleteQueue('doomed');
  seen.cancelled = await cancelled;
  await channel.close();
}

seen.frameMax = connection.connection.frameMax;
await connection.close();
console.log(JSON.stringify(seen));
