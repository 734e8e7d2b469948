/* cellload: three cells with twelve queues; a producer and four consumers in each, transient, auto-ack.
 *
 * --load names how the queues are used:
 *   sharded  an x-modulus-hash exchange `cellload`, which a policy has sharded (shards-per-node 4): consumers use the name
 *            of the exchange, so that each gets a shard of its cell
 *   queues   twelve queues, four declared in each cell, published to by their names: their consumers are spread over the
 *            cells, so that one in three is in the cell of its queue, as chance would have it
 *
 * Message n of a producer has the routing key n modulo 600 of 1,800 in all (sharded), or goes to queue n modulo 12. Order is
 * checked for each key or queue of each producer, and that a key stays with one consumer, and that no consumer idles. Options and output: load.h.
 *
 * build: cc -O2 -pthread -o cellload cellload.c
 */
#include "load.h"

enum { CELLS = 3, PER_CELL = 4, QUEUES = CELLS * PER_CELL, KEYS = 600, DIGITS = 6 };

static struct peer producers[CELLS], consumers[CELLS];
static int is_sharded;
static uint64_t next_of[CELLS][KEYS];
static int holder_of[CELLS][KEYS];
static volatile uint64_t taken_by[CELLS][PER_CELL + 1], sent_by[CELLS], received_of[CELLS];

static unsigned groups(void) { return is_sharded ? KEYS : QUEUES; }

static void queue_name(char *out, int number) { sprintf(out, "cellload.%02d", number); }

/* ---- sending */
static size_t key_place, number_place;

static void make_message(struct buffer *b)
{
    size_t payload = open_frame(b, FRAME_METHOD, 1);
    put16(b, 60);
    put16(b, 40);
    put16(b, 0);
    put_short(b, is_sharded ? "cellload" : "");
    key_place = b->length + 1;
    put_short(b, is_sharded ? "000000" : "cellload.00");
    put8(b, 0);
    close_frame(b, payload);
    payload = open_frame(b, FRAME_HEADER, 1);
    put16(b, 60);
    put16(b, 0);
    put64(b, body_size);
    put16(b, 0);
    close_frame(b, payload);
    payload = open_frame(b, FRAME_BODY, 1);
    number_place = b->length;
    memset(b->bytes + b->length, 'x', body_size);
    b->length += body_size;
    close_frame(b, payload);
}

static void write_key(uint8_t *message, int producer, unsigned group)
{
    char key[32];
    if (is_sharded) sprintf(key, "%06d", (int)(producer * 1000 + group));
    else queue_name(key, group);
    memcpy(message + key_place, key, strlen(key));
}

static void *produce(void *argument)
{
    int own = (int)(intptr_t)argument;
    struct buffer one = {malloc(body_size + 1024), 0};
    make_message(&one);
    uint8_t *batch = malloc(one.length * BATCH);
    for (int i = 0; i < BATCH; i++) memcpy(batch + i * one.length, one.bytes, one.length);
    while (!stop_sending) {
        if (sent_by[own] - received_of[own] > DEPTH / CELLS - BATCH) {
            usleep(200);
            continue;
        }
        for (int i = 0; i < BATCH; i++) {
            uint8_t *message = batch + i * one.length;
            struct buffer number = {message, number_place};
            put16(&number, own);
            put16(&number, 0);
            put32(&number, sent_by[own] + i);
            write_key(message, own, (sent_by[own] + i) % groups());
        }
        send_all(producers[own].fd, batch, one.length * BATCH);
        sent_by[own] += BATCH;
        __atomic_fetch_add(&sent, BATCH, __ATOMIC_RELAXED);
    }
    return NULL;
}

/* ---- judging */
static void judge(int cell, unsigned channel, const uint8_t *body, uint32_t size)
{
    unsigned producer = get16(body);
    uint64_t number = get32(body + 4);
    if (size != body_size || producer >= CELLS) {
        damaged++;
        return;
    }
    unsigned group = number % groups();
    int holder = cell * 100 + channel;
    if (number != next_of[producer][group]) misplaced++;
    next_of[producer][group] = number + groups();
    if (!holder_of[producer][group]) holder_of[producer][group] = holder;
    if (holder_of[producer][group] != holder) misplaced++;
    taken_by[cell][channel]++;
    __atomic_fetch_add(&received_of[producer], 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&received, 1, __ATOMIC_RELAXED);
}

static void *consume(void *argument)
{
    int cell = (int)(intptr_t)argument;
    uint32_t size;
    while (!stop_reading) {
        uint8_t *frame = next_frame(&consumers[cell], &size);
        if (!frame) continue;
        unsigned channel = get16(frame + 1);
        if (frame[0] == FRAME_METHOD && get16(frame + HEAD) != 60) fail("the broker closed: %.*s", frame[13], frame + 14);
        if (frame[0] == FRAME_BODY && channel >= 1 && channel <= PER_CELL) judge(cell, channel, frame + HEAD, size);
    }
    return NULL;
}

/* ---- queues and consumers */
static void set_up(void)
{
    char name[32];
    for (int cell = 0; cell < CELLS && !is_sharded; cell++) {
        for (int i = 0; i < PER_CELL; i++) {
            queue_name(name, cell * PER_CELL + i);
            declare_queue(&consumers[cell], name, NULL);
        }
    }
    for (int number = 0; number < QUEUES; number++) {
        int cell = is_sharded ? number / PER_CELL : number % CELLS;
        int channel = is_sharded ? number % PER_CELL + 1 : number / CELLS + 1;
        queue_name(name, number);
        if (channel > 1) open_channel(&consumers[cell], channel);
        consume_queue(&consumers[cell], channel, is_sharded ? "cellload" : name, NO_ACK);
    }
}

static void tear_down(void)
{
    char name[32];
    for (int number = 0; number < QUEUES && !is_sharded; number++) {
        queue_name(name, number);
        delete_queue(&producers[0], name);
    }
}

int main(int count, char **values)
{
    struct reading window[2];
    pthread_t threads[2 * CELLS];
    int idle = 0;
    read_options(count, values);
    is_sharded = !strcmp(load_name, "sharded");
    if (!is_sharded && strcmp(load_name, "queues")) fail("--load is sharded or queues, not '%s'", load_name);
    const char *at = ports;
    for (int cell = 0; cell < CELLS; cell++) {
        port = strtol(at, (char **)&at, 10);
        if (!port) fail("--ports names one for each of %d cells", CELLS);
        at += *at == ',';
        connect_peer(&consumers[cell]);
        connect_peer(&producers[cell]);
        for (unsigned i = 0; i < groups(); i++) next_of[cell][i] = i;
    }
    set_up();
    for (intptr_t cell = 0; cell < CELLS; cell++) {
        pthread_create(&threads[2 * cell], NULL, consume, (void *)cell);
        pthread_create(&threads[2 * cell + 1], NULL, produce, (void *)cell);
    }
    usleep(warmup * 1e6);
    window[0] = read_all();
    usleep(seconds * 1e6);
    window[1] = read_all();
    stop_sending = 1;
    for (int cell = 0; cell < CELLS; cell++) pthread_join(threads[2 * cell + 1], NULL);
    for (double end = now() + 10; now() < end && received < sent;) usleep(1000);
    usleep(100000); /* late duplicates */
    stop_reading = 1;
    for (int cell = 0; cell < CELLS; cell++) {
        pthread_join(threads[2 * cell], NULL);
        for (int channel = 1; channel <= PER_CELL; channel++) idle += !taken_by[cell][channel];
    }
    tear_down();
    return report(load_name, QUEUES, QUEUES, (int64_t)(sent - received) + idle, window);
}
