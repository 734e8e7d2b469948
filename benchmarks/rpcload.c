/* rpcload: remote procedure calls over direct reply-to, one at a time.
 *
 * A client sends a request with the number of the call as its correlation ID, waits for the reply, and sends the next. A
 * server consumes the requests from a queue, acknowledges each, and replies to the address in `reply_to`. Every message is a
 * lone one: nothing is sent before the message before it has arrived. The client checks the correlation ID and the body.
 * Rates and CPU time are per call, which is two messages. Options and output: load.h.
 *
 * build: cc -O2 -pthread -o rpcload rpcload.c
 */
#include "load.h"

enum { ID_DIGITS = 20, HAS_CORRELATION_ID = 1 << 10, HAS_REPLY_TO = 1 << 9, ADDRESS = 256 };
static const char QUEUE[] = "rpcload", REPLY_TO[] = "amq.rabbitmq.reply-to";

static void digits(char *out, uint64_t value)
{
    for (int i = ID_DIGITS - 1; i >= 0; i--, value /= 10) out[i] = '0' + value % 10;
    out[ID_DIGITS] = 0;
}

/* One message to the default exchange; without an address to reply to it is a reply. */
static void put_message(struct buffer *b, const char *key, const char *id, const char *reply_to)
{
    size_t payload = open_frame(b, FRAME_METHOD, 1);
    put16(b, 60);
    put16(b, 40);
    put16(b, 0);
    put_short(b, "");
    put_short(b, key);
    put8(b, 0);
    close_frame(b, payload);
    payload = open_frame(b, FRAME_HEADER, 1);
    put16(b, 60);
    put16(b, 0);
    put64(b, body_size);
    put16(b, HAS_CORRELATION_ID | (reply_to ? HAS_REPLY_TO : 0));
    put_short(b, id);
    if (reply_to) put_short(b, reply_to);
    close_frame(b, payload);
    payload = open_frame(b, FRAME_BODY, 1);
    memset(b->bytes + b->length, reply_to ? 'q' : 'r', body_size);
    b->length += body_size;
    close_frame(b, payload);
}

/* A whole delivery: its tag, its correlation ID, its address to reply to, and whether its body is all `letter`. */
struct delivery { uint64_t tag; char id[ADDRESS], reply_to[ADDRESS]; int is_intact; };

static void copy_short(char *out, const uint8_t **at)
{
    memcpy(out, *at + 1, **at);
    out[**at] = 0;
    *at += **at + 1;
}

static int next_delivery(struct peer *peer, struct delivery *d, char letter)
{
    uint32_t size;
    for (;;) {
        uint8_t *frame = next_frame(peer, &size);
        if (!frame) return 0;
        const uint8_t *payload = frame + HEAD;
        if (frame[0] == FRAME_METHOD) {
            if (get16(payload) != 60 || get16(payload + 2) != 60) fail("the broker closed: %.*s", frame[13], frame + 14);
            payload += 5 + payload[4];
            d->tag = (uint64_t)get32(payload) << 32 | get32(payload + 4);
        } else if (frame[0] == FRAME_HEADER) {
            unsigned flags = get16(payload + 12);
            payload += 14;
            d->id[0] = d->reply_to[0] = 0;
            if (flags & HAS_CORRELATION_ID) copy_short(d->id, &payload);
            if (flags & HAS_REPLY_TO) copy_short(d->reply_to, &payload);
        } else {
            d->is_intact = size == body_size && payload[0] == letter && payload[size - 1] == letter;
            return 1;
        }
    }
}

static void *call(void *argument)
{
    struct peer *peer = argument;
    struct buffer b = {malloc(body_size + 1024), 0};
    struct delivery reply;
    char id[ID_DIGITS + 1];
    while (!stop_sending) {
        digits(id, sent);
        b.length = 0;
        put_message(&b, QUEUE, id, REPLY_TO);
        send_all(peer->fd, b.bytes, b.length);
        sent++;
        int has_reply = 0;
        for (double end = now() + 5; !(has_reply = next_delivery(peer, &reply, 'r')) && now() < end;) continue;
        if (!has_reply) break; /* reported as lost */
        if (!reply.is_intact) damaged++;
        if (strcmp(reply.id, id)) misplaced++;
        received++;
    }
    sender_done = 1;
    return NULL;
}

static void *serve(void *argument)
{
    struct peer *peer = argument;
    struct buffer b = {malloc(body_size + 1024), 0};
    struct delivery request;
    while (!stop_reading) {
        if (!next_delivery(peer, &request, 'q')) continue;
        if (!request.is_intact) damaged++;
        b.length = 0;
        put_message(&b, request.reply_to, request.id, NULL);
        size_t payload = open_frame(&b, FRAME_METHOD, 1);
        put16(&b, 60);
        put16(&b, 80); /* ack */
        put64(&b, request.tag);
        put8(&b, 0);
        close_frame(&b, payload);
        send_all(peer->fd, b.bytes, b.length);
    }
    return NULL;
}

int main(int count, char **values)
{
    struct peer client = {0}, server = {0};
    struct reading window[2];
    read_options(count, values);
    connect_peer(&server);
    connect_peer(&client);
    delete_queue(&server, QUEUE);
    declare_queue(&server, QUEUE, NULL);
    consume_queue(&server, 1, QUEUE, 0);
    consume_queue(&client, 1, REPLY_TO, NO_ACK);
    run(call, &client, serve, &server, window);
    delete_queue(&server, QUEUE);
    return report("rpc", 1, 1, sent - received, window);
}
