/* propload: messages whose properties are all different, as applications send them.
 *
 * One producer and one consumer, transient, auto-ack. Every message carries a message_id of its own and three headers:
 * `trace` (a unique string), `attempt` (an integer that changes) and `tenant` (a string). The consumer checks count, order,
 * message_id and trace. Options and output: load.h.
 *
 * build: cc -O2 -pthread -o propload propload.c
 */
#include "load.h"

enum { ID_DIGITS = 20 };
static const char QUEUE[] = "propload", TENANT[] = "north-west";

static void digits(char *out, uint64_t value)
{
    for (int i = ID_DIGITS - 1; i >= 0; i--, value /= 10) out[i] = '0' + value % 10;
}

static size_t id_place, trace_place, attempt_place, number_place;

/* One message with space for what changes; the places are where to write it. */
static void make_message(struct buffer *b)
{
    char none[ID_DIGITS + 1] = {0};
    memset(none, '0', ID_DIGITS);
    size_t payload = open_frame(b, FRAME_METHOD, 1), table;
    put16(b, 60);
    put16(b, 40);
    put16(b, 0);
    put_short(b, "");
    put_short(b, QUEUE);
    put8(b, 0);
    close_frame(b, payload);
    payload = open_frame(b, FRAME_HEADER, 1);
    put16(b, 60);
    put16(b, 0);
    put64(b, body_size);
    put16(b, 1 << 13 | 1 << 12 | 1 << 7); /* headers, delivery_mode, message_id */
    put32(b, 0);
    table = b->length;
    put_short(b, "trace");
    put8(b, 'S');
    trace_place = b->length + 4;
    put_long(b, none);
    put_short(b, "attempt");
    put8(b, 'I');
    attempt_place = b->length;
    put32(b, 0);
    put_short(b, "tenant");
    put8(b, 'S');
    put_long(b, TENANT);
    struct buffer size = {b->bytes, table - 4};
    put32(&size, b->length - table);
    put8(b, 1); /* transient */
    id_place = b->length + 1;
    put_short(b, none);
    close_frame(b, payload);
    payload = open_frame(b, FRAME_BODY, 1);
    number_place = b->length;
    memset(b->bytes + b->length, 'x', body_size);
    b->length += body_size;
    close_frame(b, payload);
}

static void *produce(void *argument)
{
    struct peer *peer = argument;
    struct buffer one = {malloc(body_size + 1024), 0};
    make_message(&one);
    uint8_t *batch = malloc(one.length * BATCH);
    for (int i = 0; i < BATCH; i++) memcpy(batch + i * one.length, one.bytes, one.length);
    while (!stop_sending) {
        if (sent - received > DEPTH - BATCH) {
            usleep(200);
            continue;
        }
        for (int i = 0; i < BATCH; i++) {
            uint8_t *message = batch + i * one.length;
            struct buffer attempt = {message, attempt_place}, number = {message, number_place};
            digits((char *)message + id_place, sent + i);
            digits((char *)message + trace_place, (sent + i) * 7919);
            put32(&attempt, (sent + i) % 5);
            put64(&number, sent + i);
        }
        send_all(peer->fd, batch, one.length * BATCH);
        sent += BATCH;
    }
    sender_done = 1;
    return NULL;
}

/* The header frame must carry the id and the trace of message `number`. */
static int is_intact(const uint8_t *payload, uint32_t size, uint64_t number)
{
    char id[ID_DIGITS], trace[ID_DIGITS];
    digits(id, number);
    digits(trace, number * 7919);
    return memmem(payload, size, id, ID_DIGITS) && memmem(payload, size, trace, ID_DIGITS);
}

static void *consume(void *argument)
{
    struct peer *peer = argument;
    uint64_t expected = 0;
    uint32_t size;
    while (!stop_reading) {
        uint8_t *frame = next_frame(peer, &size);
        if (!frame) continue;
        if (frame[0] == FRAME_HEADER) {
            if (!is_intact(frame + HEAD, size, expected)) damaged++;
        } else if (frame[0] == FRAME_BODY) {
            uint64_t number = (uint64_t)get32(frame + HEAD) << 32 | get32(frame + HEAD + 4);
            if (number != expected) misplaced++;
            expected = number + 1;
            received++;
        } else if (frame[0] == FRAME_METHOD && get16(frame + HEAD) != 60) {
            fail("the broker closed: %.*s", frame[13], frame + 14);
        }
    }
    return NULL;
}

int main(int count, char **values)
{
    struct peer producer = {0}, consumer = {0};
    struct reading window[2];
    read_options(count, values);
    connect_peer(&consumer);
    connect_peer(&producer);
    delete_queue(&consumer, QUEUE);
    declare_queue(&consumer, QUEUE, NULL);
    consume_queue(&consumer, 1, QUEUE, NO_ACK);
    run(produce, &producer, consume, &consumer, window);
    delete_queue(&producer, QUEUE);
    return report("props", 1, 1, sent - received, window);
}
