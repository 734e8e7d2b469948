/* What the load generators of this folder share: raw AMQP 0-9-1 frames, one peer, a timed run, and what it cost.
 *
 * A generator includes this file, sets up its queues, and calls `run` with two threads: one sends and counts in `sent`, one
 * reads, counts in `received` and judges what it reads (`misplaced`, `damaged`). `report` prints one JSON line.
 *
 * options: --port N [--host 127.0.0.1] [--size BYTES] [--seconds S] [--warmup S] [--broker-pid PID[,PID]] [--label TEXT]
 *          [--load NAME] for a generator with several loads, [--ports N,N,...] for one of several brokers
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { FRAME_METHOD = 1, FRAME_HEADER = 2, FRAME_BODY = 3, FRAME_END = 0xCE, HEAD = 7 };
enum { MOST_PIDS = 16, BATCH = 64, DEPTH = 20000, INPUT = 1 << 18, LARGEST = 65536 };

static const char *host = "127.0.0.1", *label = "", *load_name = "", *ports = "";
static int port = 5672, broker_pids[MOST_PIDS], pids;
static size_t body_size = 64;
static double seconds = 5, warmup = 1;

static volatile uint64_t sent, received, misplaced, damaged;
static volatile int stop_sending, sender_done, stop_reading;

struct peer { int fd; uint8_t *input; size_t start, end; };
struct buffer { uint8_t *bytes; size_t length; };

static void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(2);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

/* ---- writing */
static void put8(struct buffer *b, unsigned v) { b->bytes[b->length++] = v; }
static void put16(struct buffer *b, unsigned v) { put8(b, v >> 8); put8(b, v & 255); }
static void put32(struct buffer *b, uint32_t v) { put16(b, v >> 16); put16(b, v & 65535); }
static void put64(struct buffer *b, uint64_t v) { put32(b, v >> 32); put32(b, (uint32_t)v); }
static void put(struct buffer *b, const void *bytes, size_t n) { memcpy(b->bytes + b->length, bytes, n); b->length += n; }
static void put_short(struct buffer *b, const char *text) { put8(b, strlen(text)); put(b, text, strlen(text)); }
static void put_long(struct buffer *b, const char *text) { put32(b, strlen(text)); put(b, text, strlen(text)); }

static size_t open_frame(struct buffer *b, int kind, int channel)
{
    put8(b, kind);
    put16(b, channel);
    put32(b, 0);
    return b->length;
}

static void close_frame(struct buffer *b, size_t payload)
{
    struct buffer size = {b->bytes, payload - 4};
    put32(&size, b->length - payload);
    put8(b, FRAME_END);
}

static void send_all(int fd, const uint8_t *bytes, size_t n)
{
    while (n) {
        ssize_t done = send(fd, bytes, n, MSG_NOSIGNAL);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) fail("send: %s", strerror(errno));
        bytes += done;
        n -= done;
    }
}

/* ---- reading */
static uint32_t get32(const uint8_t *p) { return (uint32_t)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3]; }
static unsigned get16(const uint8_t *p) { return p[0] << 8 | p[1]; }

/* The next whole frame, NULL when the peer sends nothing for a while or has closed; *size is the payload's. */
static uint8_t *next_frame(struct peer *peer, uint32_t *size)
{
    for (;;) {
        size_t have = peer->end - peer->start;
        if (have >= HEAD) {
            uint8_t *frame = peer->input + peer->start;
            *size = get32(frame + 3);
            if (*size + HEAD + 1 > INPUT) fail("a frame of %u bytes", *size);
            if (have >= *size + HEAD + 1) {
                if (frame[HEAD + *size] != FRAME_END) fail("a frame without its end");
                peer->start += *size + HEAD + 1;
                return frame;
            }
        }
        memmove(peer->input, peer->input + peer->start, have);
        peer->start = 0;
        peer->end = have;
        ssize_t n = recv(peer->fd, peer->input + have, INPUT - have, 0);
        if (n == 0) fail("the broker closed the connection");
        if (n < 0) return NULL;
        peer->end += n;
    }
}

static uint8_t *expect(struct peer *peer, unsigned class, unsigned method)
{
    uint32_t size;
    for (double end = now() + 20; now() < end;) {
        uint8_t *frame = next_frame(peer, &size);
        if (!frame || frame[0] != FRAME_METHOD) continue;
        unsigned c = get16(frame + HEAD), m = get16(frame + HEAD + 2);
        if (c == class && m == method) return frame;
        if ((c == 10 && m == 50) || (c == 20 && m == 40)) fail("closed: %u %.*s", get16(frame + 11), frame[13], frame + 14);
    }
    fail("no answer %u.%u", class, method);
    return NULL;
}

/* ---- one peer */
static size_t method(struct buffer *b, int channel, unsigned class, unsigned number)
{
    b->length = 0;
    size_t payload = open_frame(b, FRAME_METHOD, channel);
    put16(b, class);
    put16(b, number);
    return payload;
}

static void say(struct peer *peer, struct buffer *b, size_t payload)
{
    close_frame(b, payload);
    send_all(peer->fd, b->bytes, b->length);
}

static void open_channel(struct peer *peer, int channel)
{
    uint8_t bytes[64];
    struct buffer b = {bytes, 0};
    size_t payload = method(&b, channel, 20, 10);
    put_short(&b, "");
    say(peer, &b, payload);
    expect(peer, 20, 11);
}

/* A connection with channel 1. */
static void connect_peer(struct peer *peer)
{
    uint8_t bytes[1024];
    struct buffer b = {bytes, 0};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct timeval patience = {0, 100000};
    int one = 1;
    size_t payload;
    inet_pton(AF_INET, host, &address.sin_addr);
    peer->fd = socket(AF_INET, SOCK_STREAM, 0);
    peer->input = malloc(INPUT);
    if (connect(peer->fd, (struct sockaddr *)&address, sizeof address)) fail("connect: %s", strerror(errno));
    setsockopt(peer->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(peer->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    send_all(peer->fd, (const uint8_t *)"AMQP\0\0\x09\x01", 8);
    expect(peer, 10, 10);
    payload = method(&b, 0, 10, 11);
    put32(&b, 0);
    put_short(&b, "PLAIN");
    put32(&b, 12);
    put(&b, "\0guest\0guest", 12);
    put_short(&b, "en_US");
    say(peer, &b, payload);
    uint8_t *tune = expect(peer, 10, 30);
    unsigned channels = get16(tune + 11);
    payload = method(&b, 0, 10, 31);
    put16(&b, channels);
    put32(&b, 131072);
    put16(&b, 0);
    say(peer, &b, payload);
    payload = method(&b, 0, 10, 40);
    put_short(&b, "/");
    put_short(&b, "");
    put8(&b, 0);
    say(peer, &b, payload);
    expect(peer, 10, 41);
    open_channel(peer, 1);
}

static void delete_queue(struct peer *peer, const char *name)
{
    uint8_t bytes[512];
    struct buffer b = {bytes, 0};
    size_t payload = method(&b, 1, 50, 40);
    put16(&b, 0);
    put_short(&b, name);
    put8(&b, 0);
    say(peer, &b, payload);
    expect(peer, 50, 41);
}

/* `arguments` is the inside of a field table, NULL for none. */
static void declare_queue(struct peer *peer, const char *name, const struct buffer *arguments)
{
    uint8_t bytes[1024];
    struct buffer b = {bytes, 0};
    size_t payload = method(&b, 1, 50, 10);
    put16(&b, 0);
    put_short(&b, name);
    put8(&b, 0);
    put32(&b, arguments ? arguments->length : 0);
    if (arguments) put(&b, arguments->bytes, arguments->length);
    say(peer, &b, payload);
    expect(peer, 50, 11);
}

enum { NO_ACK = 2 };

static void consume_queue(struct peer *peer, int channel, const char *name, int flags)
{
    uint8_t bytes[512];
    struct buffer b = {bytes, 0};
    size_t payload = method(&b, channel, 60, 20);
    put16(&b, 0);
    put_short(&b, name);
    put_short(&b, "");
    put8(&b, flags);
    put32(&b, 0);
    say(peer, &b, payload);
    expect(peer, 60, 21);
}

/* ---- what it cost */
struct reading { double time, broker, self, busy, steal; uint64_t sent, received; };

static double cpu_of(int pid)
{
    char path[64], text[1024];
    unsigned long user = 0, system = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    char *after = strrchr(text, ')');
    if (after) sscanf(after + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system);
    return (double)(user + system) / sysconf(_SC_CLK_TCK);
}

static double broker_cpu(void)
{
    double sum = 0;
    for (int i = 0; i < pids; i++) sum += cpu_of(broker_pids[i]);
    return sum;
}

static unsigned long broker_rss_kb(void)
{
    char path[64], line[256];
    unsigned long sum = 0, kb = 0;
    for (int i = 0; i < pids; i++, sum += kb, kb = 0) {
        snprintf(path, sizeof path, "/proc/%d/status", broker_pids[i]);
        FILE *file = fopen(path, "r");
        while (file && fgets(line, sizeof line, file)) sscanf(line, "VmRSS: %lu", &kb);
        if (file) fclose(file);
    }
    return sum;
}

static struct reading read_all(void)
{
    struct rusage usage;
    unsigned long v[8] = {0};
    FILE *file = fopen("/proc/stat", "r");
    if (file && fscanf(file, "cpu %lu %lu %lu %lu %lu %lu %lu %lu", v, v + 1, v + 2, v + 3, v + 4, v + 5, v + 6, v + 7) != 8) v[0] = 0;
    if (file) fclose(file);
    getrusage(RUSAGE_SELF, &usage);
    double ticks = sysconf(_SC_CLK_TCK);
    return (struct reading){
        .time = now(), .broker = broker_cpu(), .sent = sent, .received = received,
        .self = usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6,
        .busy = (v[0] + v[1] + v[2] + v[5] + v[6]) / ticks, .steal = v[7] / ticks,
    };
}

/* The time between two readings under load; then the sender ends, and the reader once all has come or time is up. */
static void run(void *(*send_them)(void *), struct peer *from, void *(*read_them)(void *), struct peer *to, struct reading window[2])
{
    pthread_t sender, reader;
    if (read_them) pthread_create(&reader, NULL, read_them, to);
    pthread_create(&sender, NULL, send_them, from);
    usleep(warmup * 1e6);
    window[0] = read_all();
    usleep(seconds * 1e6);
    window[1] = read_all();
    stop_sending = 1;
    for (double end = now() + 10; now() < end && (!sender_done || (read_them && received < sent));) usleep(1000);
    if (!read_them) {
        pthread_join(sender, NULL);
        return;
    }
    usleep(100000); /* late duplicates */
    stop_reading = 1;
    pthread_join(reader, NULL);
}

/* One line; the exit status of the generator. Without consumers the messages sent are what counts. */
static int report(const char *mode, int consumers, int queues, int64_t lost, const struct reading window[2])
{
    struct reading a = window[0], b = window[1];
    double length = b.time - a.time, cpu = b.broker - a.broker, count = consumers ? b.received - a.received : b.sent - a.sent;
    double other = b.busy - a.busy - cpu - (b.self - a.self);
    int ok = !lost && !misplaced && !damaged && count > 0;
    printf("{\"label\":\"%s\",\"mode\":\"%s\",\"ok\":%s,\"size\":%zu,\"producers\":1,\"consumers\":%d,\"queues\":%d,", label, mode, ok ? "true" : "false", body_size, consumers, queues);
    printf("\"window_s\":%.3f,\"sent\":%" PRIu64 ",\"received\":%" PRIu64 ",\"lost\":%" PRId64 ",", length, sent, received, lost);
    printf("\"reordered\":%" PRIu64 ",\"corrupt\":%" PRIu64 ",\"send_rate\":%.0f,\"recv_rate\":%.0f,", misplaced, damaged, (b.sent - a.sent) / length, (b.received - a.received) / length);
    if (pids) printf("\"broker_cpu_s\":%.2f,\"broker_cpu_s_per_M\":%.3f,\"broker_rss_kb\":%lu,", cpu, count ? cpu / count * 1e6 : 0, broker_rss_kb());
    printf("\"other_cpu_s\":%.2f,\"steal_s\":%.2f,\"self_cpu_s\":%.2f}\n", other < 0 ? 0 : other, b.steal - a.steal, b.self - a.self);
    return ok ? 0 : 3;
}

static void read_options(int count, char **values)
{
    static const struct option known[] = {
        {"host", 1, 0, 'h'}, {"port", 1, 0, 'p'}, {"size", 1, 0, 's'}, {"seconds", 1, 0, 't'},
        {"warmup", 1, 0, 'w'}, {"broker-pid", 1, 0, 'b'}, {"label", 1, 0, 'l'}, {"load", 1, 0, 'o'}, {"ports", 1, 0, 'c'}, {0},
    };
    for (int option; (option = getopt_long(count, values, "", known, NULL)) != -1;) {
        switch (option) {
        case 'h': host = optarg; break;
        case 'p': port = atoi(optarg); break;
        case 's': body_size = atol(optarg) < 8 ? 8 : atol(optarg); break;
        case 't': seconds = atof(optarg); break;
        case 'w': warmup = atof(optarg); break;
        case 'b':
            for (char *one = strtok(optarg, ","); one && pids < MOST_PIDS; one = strtok(NULL, ",")) broker_pids[pids++] = atoi(one);
            break;
        case 'c': ports = optarg; break;
        case 'o': load_name = optarg; break;
        case 'l': label = optarg; break;
        default: fail("unknown option");
        }
    }
    if (body_size > LARGEST) fail("--size is at most %d", LARGEST);
}
