/* queueload: what queues can be asked for beyond first in, first out.
 *
 * One producer, transient, auto-ack. --load names what is asked for:
 *   priority    x-max-priority 10, and a priority that changes with every message
 *   expiration  every message has an expiration of a minute; none waits that long
 *   dead-letter a queue with TTL 0 whose dead letters go to the queue that is consumed
 *   shards      an x-modulus-hash exchange with 16 queues, a consumer each, 1,000 routing keys in turn
 *   max-length  x-max-length 1000 and no consumer: all but the last 1,000 are dropped
 *   reject      the same with x-overflow reject-publish and confirms: all but the first 1,000 are refused
 *
 * Message n belongs to group n modulo the number of groups (priorities, routing keys; else one), and names n in its body.
 * Order is checked within each group: only there is it defined. So are the bodies, and what makes the load what it is:
 * priority, expiration, x-death, routing key, one shard per key, what is left in the queue, confirms. Options and output:
 * load.h.
 *
 * build: cc -O2 -pthread -o queueload queueload.c
 */
#include "load.h"

enum { SHARDS = 16, KEYS = 1000, PRIORITIES = 10, KEPT = 1000, KEY_DIGITS = 4, ANSWERS = 1 << 16 };
enum { HAS_MODE = 1 << 12, HAS_PRIORITY = 1 << 11, HAS_EXPIRATION = 1 << 8 };
static const char QUEUE[] = "queueload", EXPIRING[] = "queueload.expiring", EXCHANGE[] = "queueload.shards", MINUTE[] = "60000";

struct load {
    const char *name;
    unsigned groups, consumers, queues;
    unsigned properties;
};
static const struct load LOADS[] = {
    {"priority", PRIORITIES, 1, 1, HAS_MODE | HAS_PRIORITY},
    {"expiration", 1, 1, 1, HAS_MODE | HAS_EXPIRATION},
    {"dead-letter", 1, 1, 2, HAS_MODE},
    {"shards", KEYS, SHARDS, SHARDS, HAS_MODE},
    {"max-length", 1, 0, 1, HAS_MODE},
    {"reject", 1, 0, 1, HAS_MODE},
};
static const struct load *load;

static int is(const char *name) { return !strcmp(load->name, name); }

/* ---- queues */
static void argument_number(struct buffer *b, const char *name, unsigned value)
{
    put_short(b, name);
    put8(b, 'I');
    put32(b, value);
}

static void argument_text(struct buffer *b, const char *name, const char *value)
{
    put_short(b, name);
    put8(b, 'S');
    put_long(b, value);
}

static void shard_name(char *out, int number) { sprintf(out, "%s.%02d", EXCHANGE, number); }

static void delete_all(struct peer *peer)
{
    uint8_t bytes[256];
    char name[64];
    struct buffer b = {bytes, 0};
    delete_queue(peer, EXPIRING);
    delete_queue(peer, QUEUE);
    for (int i = 1; i <= SHARDS; i++) {
        shard_name(name, i);
        delete_queue(peer, name);
    }
    size_t payload = method(&b, 1, 40, 20);
    put16(&b, 0);
    put_short(&b, EXCHANGE);
    put8(&b, 0);
    say(peer, &b, payload);
    expect(peer, 40, 21);
}

static void declare_shards(struct peer *peer)
{
    uint8_t bytes[256];
    char name[64];
    struct buffer b = {bytes, 0};
    size_t payload = method(&b, 1, 40, 10);
    put16(&b, 0);
    put_short(&b, EXCHANGE);
    put_short(&b, "x-modulus-hash");
    put8(&b, 0);
    put32(&b, 0);
    say(peer, &b, payload);
    expect(peer, 40, 11);
    for (int i = 1; i <= SHARDS; i++) {
        shard_name(name, i);
        declare_queue(peer, name, NULL);
        payload = method(&b, 1, 50, 20);
        put16(&b, 0);
        put_short(&b, name);
        put_short(&b, EXCHANGE);
        put_short(&b, "");
        put8(&b, 0);
        put32(&b, 0);
        say(peer, &b, payload);
        expect(peer, 50, 21);
    }
}

static void declare_all(struct peer *peer)
{
    uint8_t bytes[256];
    struct buffer arguments = {bytes, 0};
    if (is("shards")) {
        declare_shards(peer);
        return;
    }
    if (is("priority")) argument_number(&arguments, "x-max-priority", PRIORITIES);
    if (is("max-length") || is("reject")) argument_number(&arguments, "x-max-length", KEPT);
    if (is("reject")) argument_text(&arguments, "x-overflow", "reject-publish");
    declare_queue(peer, QUEUE, &arguments);
    if (is("dead-letter")) {
        arguments.length = 0;
        argument_number(&arguments, "x-message-ttl", 0);
        argument_text(&arguments, "x-dead-letter-exchange", "");
        argument_text(&arguments, "x-dead-letter-routing-key", QUEUE);
        declare_queue(peer, EXPIRING, &arguments);
    }
}

/* A channel for each consumer. */
static void consume_all(struct peer *peer)
{
    char name[64];
    if (!is("shards")) {
        consume_queue(peer, 1, QUEUE, NO_ACK);
        return;
    }
    for (int i = 1; i <= SHARDS; i++) {
        if (i > 1) open_channel(peer, i);
        shard_name(name, i);
        consume_queue(peer, i, name, NO_ACK);
    }
}

static void ask_for_confirms(struct peer *peer)
{
    uint8_t bytes[64];
    struct buffer b = {bytes, 0};
    size_t payload = method(&b, 1, 85, 10);
    put8(&b, 0);
    say(peer, &b, payload);
    expect(peer, 85, 11);
}

/* ---- sending */
static size_t key_place, priority_place, number_place;

/* One message with space for what changes; the places are where to write it, 0 for what does not. */
static void make_message(struct buffer *b)
{
    size_t payload = open_frame(b, FRAME_METHOD, 1);
    put16(b, 60);
    put16(b, 40);
    put16(b, 0);
    put_short(b, is("shards") ? EXCHANGE : "");
    if (is("shards")) key_place = b->length + 1;
    put_short(b, is("shards") ? "0000" : is("dead-letter") ? EXPIRING : QUEUE);
    put8(b, 0);
    close_frame(b, payload);
    payload = open_frame(b, FRAME_HEADER, 1);
    put16(b, 60);
    put16(b, 0);
    put64(b, body_size);
    put16(b, load->properties);
    put8(b, 1); /* transient */
    if (load->properties & HAS_PRIORITY) {
        priority_place = b->length;
        put8(b, 0);
    }
    if (load->properties & HAS_EXPIRATION) put_short(b, MINUTE);
    close_frame(b, payload);
    payload = open_frame(b, FRAME_BODY, 1);
    number_place = b->length;
    memset(b->bytes + b->length, 'x', body_size);
    b->length += body_size;
    close_frame(b, payload);
}

static void key_of(char *out, unsigned group)
{
    for (int i = KEY_DIGITS - 1; i >= 0; i--, group /= 10) out[i] = '0' + group % 10;
}

static void *produce(void *argument)
{
    struct peer *peer = argument;
    struct buffer one = {malloc(body_size + 1024), 0};
    make_message(&one);
    uint8_t *batch = malloc(one.length * BATCH);
    int is_answered = load->consumers || is("reject");
    for (int i = 0; i < BATCH; i++) memcpy(batch + i * one.length, one.bytes, one.length);
    while (!stop_sending) {
        if (is_answered && sent - received > DEPTH - BATCH) {
            usleep(200);
            continue;
        }
        for (int i = 0; i < BATCH; i++) {
            uint8_t *message = batch + i * one.length;
            struct buffer number = {message, number_place};
            put64(&number, sent + i);
            if (key_place) key_of((char *)message + key_place, (sent + i) % KEYS);
            if (priority_place) message[priority_place] = (sent + i) % PRIORITIES;
        }
        send_all(peer->fd, batch, one.length * BATCH);
        sent += BATCH;
    }
    sender_done = 1;
    return NULL;
}

/* ---- judging */
struct delivery { unsigned priority; char key[KEY_DIGITS]; };
static struct delivery opened[SHARDS + 1]; /* by channel: what came before the body */
static uint64_t next_of[KEYS];             /* by group */
static unsigned shard_of[KEYS], shards_used;

/* The content header, but for the priority: it is checked once the body names the message. */
static void judge_header(struct delivery *it, const uint8_t *payload, uint32_t size)
{
    unsigned flags = get16(payload + 12);
    const uint8_t *properties = payload + 14;
    if (size < 15 || get32(payload + 8) != body_size) damaged++;
    if (is("dead-letter")) {
        if (!memmem(payload, size, "x-death", 7) || !memmem(payload, size, "expired", 7)) damaged++;
        return;
    }
    if (flags != load->properties || properties[0] != 1) damaged++;
    if (flags & HAS_PRIORITY) it->priority = properties[1];
    if (flags & HAS_EXPIRATION && memcmp(properties + 2, MINUTE, sizeof MINUTE - 1)) damaged++;
}

static int is_filled(const uint8_t *body, uint32_t size)
{
    for (uint32_t i = 8; i < size; i++) {
        if (body[i] != 'x') return 0;
    }
    return size == body_size;
}

static void judge_body(const struct delivery *it, unsigned channel, const uint8_t *body, uint32_t size)
{
    char key[KEY_DIGITS];
    uint64_t number = (uint64_t)get32(body) << 32 | get32(body + 4);
    unsigned group = number % load->groups;
    if (!is_filled(body, size)) damaged++;
    if (number != next_of[group]) misplaced++;
    next_of[group] = number + load->groups;
    if (priority_place && it->priority != group) damaged++;
    if (key_place) {
        key_of(key, group);
        if (memcmp(key, it->key, KEY_DIGITS)) damaged++;
        if (!shard_of[group]) shard_of[group] = channel;
        if (shard_of[group] != channel) misplaced++;
        shards_used |= 1u << channel;
    }
    received++;
}

static void *consume(void *argument)
{
    struct peer *peer = argument;
    uint32_t size;
    while (!stop_reading) {
        uint8_t *frame = next_frame(peer, &size);
        if (!frame) continue;
        unsigned channel = get16(frame + 1);
        if (channel > SHARDS) fail("a frame on channel %u", channel);
        if (frame[0] == FRAME_BODY) {
            judge_body(&opened[channel], channel, frame + HEAD, size);
        } else if (frame[0] == FRAME_HEADER) {
            judge_header(&opened[channel], frame + HEAD, size);
        } else if (frame[0] == FRAME_METHOD) {
            if (get16(frame + HEAD) != 60) fail("the broker closed: %.*s", frame[13], frame + 14);
            memcpy(opened[channel].key, frame + HEAD + size - KEY_DIGITS, KEY_DIGITS); /* a deliver ends with the key */
        }
    }
    return NULL;
}

/* The first 1,000 are taken, all others refused, each once. More than DEPTH are never open, so the ring is large enough. */
static void *hear_verdicts(void *argument)
{
    struct peer *peer = argument;
    static uint8_t is_known[ANSWERS];
    uint64_t lowest = 1; /* all tags below are confirmed */
    uint32_t size;
    while (!stop_reading) {
        uint8_t *frame = next_frame(peer, &size);
        if (!frame || frame[0] != FRAME_METHOD) continue;
        if (get16(frame + HEAD) != 60) fail("the broker closed: %.*s", frame[13], frame + 14);
        uint64_t tag = (uint64_t)get32(frame + 11) << 32 | get32(frame + 15);
        int is_refused = get16(frame + HEAD + 2) == 120, is_multiple = frame[19] & 1;
        if (tag < lowest && !is_multiple) misplaced++;
        for (uint64_t t = is_multiple ? lowest : tag; t >= lowest && t <= tag; t++) {
            if (is_known[t % ANSWERS] && !is_multiple) misplaced++;
            if (is_known[t % ANSWERS]) continue;
            is_known[t % ANSWERS] = 1;
            received++;
            if (is_refused != (t > KEPT)) misplaced++;
        }
        for (; is_known[lowest % ANSWERS]; lowest++) is_known[lowest % ANSWERS] = 0;
    }
    return NULL;
}

/* A get on the producer's channel comes after its publishes: the front of what is left, and how many stand behind it. */
static int64_t missing_of_kept(struct peer *peer)
{
    uint8_t bytes[256], *frame;
    struct buffer b = {bytes, 0};
    uint32_t size;
    uint64_t first = is("reject") ? 0 : sent - KEPT;
    size_t payload = method(&b, 1, 60, 70);
    put16(&b, 0);
    put_short(&b, QUEUE);
    put8(&b, 1); /* no-ack */
    say(peer, &b, payload);
    frame = expect(peer, 60, 71);
    int64_t behind = get32(frame + HEAD + get32(frame + 3) - 4);
    do frame = next_frame(peer, &size);
    while (!frame || frame[0] != FRAME_BODY);
    if (((uint64_t)get32(frame + HEAD) << 32 | get32(frame + HEAD + 4)) != first) misplaced++;
    if (!is_filled(frame + HEAD, size)) damaged++;
    return KEPT - 1 - behind;
}

int main(int count, char **values)
{
    struct peer producer = {0}, consumer = {0};
    struct reading window[2];
    read_options(count, values);
    for (size_t i = 0; i < sizeof LOADS / sizeof *LOADS; i++) {
        if (!strcmp(LOADS[i].name, load_name)) load = &LOADS[i];
    }
    if (!load) fail("--load is one of those in the head of queueload.c, not '%s'", load_name);
    for (unsigned i = 0; i < load->groups; i++) next_of[i] = i;
    connect_peer(&consumer);
    connect_peer(&producer);
    delete_all(&consumer);
    declare_all(&consumer);
    int64_t lost;
    if (load->consumers) {
        consume_all(&consumer);
        run(produce, &producer, consume, &consumer, window);
        lost = sent - received;
        if (is("shards") && shards_used != ((1u << SHARDS) - 1) << 1) lost += 1; /* a shard that got nothing */
    } else {
        if (is("reject")) ask_for_confirms(&producer);
        run(produce, &producer, is("reject") ? hear_verdicts : NULL, &producer, window);
        lost = missing_of_kept(&producer) + (is("reject") ? (int64_t)(sent - received) : 0);
    }
    delete_all(&producer);
    return report(load->name, load->consumers, load->queues, lost, window);
}
