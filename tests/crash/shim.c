/* Makes write and sync calls on files below SHIM_ROOT fail, fall short or take long, as the file SHIM_CONTROL says,
   which is read anew at every such call:

       GENERATION write|sync|none errno:CODE|short:0|sleep:MILLISECONDS|hold:0 FIRST TIMES PART

   A call that is held waits for the next GENERATION.

   FIRST counts the calls of the kind since GENERATION last changed; TIMES 0 means all from there on; PART must be in
   the path, or is "*". Each call is noted in SHIM_TRACE: "write|sync OUTCOME forged|true PATH". */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct order {
    long generation;
    char kind[8], what[8], part[128];
    int amount, first, times;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long last_generation = -1;
static int seen; /* calls of the ordered kind since the generation began */

static long raw(long number, long a, long b, long c) { return syscall(number, a, b, c); }

static int is_ours(int fd, char *path) {
    const char *root = getenv("SHIM_ROOT");
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, PATH_MAX - 1);
    if (root == NULL || size <= 0) return 0;
    path[size] = 0;
    char next = path[strlen(root) < (size_t)size ? strlen(root) : (size_t)size];
    return strncmp(path, root, strlen(root)) == 0 && (next == '/' || next == 0);
}

static int read_order(struct order *order) {
    const char *name = getenv("SHIM_CONTROL");
    char text[512];
    if (name == NULL) return 0;
    int fd = raw(SYS_open, (long)name, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0) return 0;
    long size = raw(SYS_read, fd, (long)text, sizeof text - 1);
    raw(SYS_close, fd, 0, 0);
    if (size <= 0) return 0;
    text[size] = 0;
    return sscanf(text, "%ld %7s %7[^:]:%d %d %d %127s", &order->generation, order->kind, order->what,
                  &order->amount, &order->first, &order->times, order->part) == 7;
}

/* Does the order apply to this call? Counts it if it is of the kind. */
static int applies(struct order *order, const char *kind, const char *path) {
    if (!read_order(order) || strcmp(order->kind, kind) != 0) return 0;
    if (strcmp(order->part, "*") != 0 && strstr(path, order->part) == NULL) return 0;
    pthread_mutex_lock(&lock);
    if (order->generation != last_generation) {
        last_generation = order->generation;
        seen = 0;
    }
    int number = ++seen;
    pthread_mutex_unlock(&lock);
    return number >= order->first && (order->times == 0 || number < order->first + order->times);
}

static void note(const char *kind, long outcome, int forged, const char *path) {
    const char *name = getenv("SHIM_TRACE");
    char line[PATH_MAX + 64];
    if (name == NULL) return;
    int fd = raw(SYS_open, (long)name, O_WRONLY | O_APPEND | O_CLOEXEC, 0);
    if (fd < 0) return;
    int size = snprintf(line, sizeof line, "%s %ld %s %s\n", kind, outcome, forged ? "forged" : "true", path);
    raw(SYS_write, fd, (long)line, size);
    raw(SYS_close, fd, 0, 0);
}

static void wait_for(int milliseconds) {
    struct timespec time = {milliseconds / 1000, (milliseconds % 1000) * 1000000L};
    nanosleep(&time, NULL);
}

static void hold(long generation) {
    struct order order;
    do {
        wait_for(2);
    } while (!read_order(&order) || order.generation == generation);
}

/* The call itself is made by the macro's expression; size is what a write was given. */
#define FORGE(KIND, FD, SIZE, SHORT, REAL)                                      \
    char path[PATH_MAX];                                                        \
    struct order order;                                                         \
    if (!is_ours(FD, path)) return REAL;                                        \
    int forged = applies(&order, KIND, path);                                   \
    if (forged && strcmp(order.what, "errno") == 0) {                           \
        note(KIND, -order.amount, 1, path);                                     \
        errno = order.amount;                                                   \
        return -1;                                                              \
    }                                                                           \
    if (forged && strcmp(order.what, "sleep") == 0) wait_for(order.amount);     \
    if (forged && strcmp(order.what, "hold") == 0) hold(order.generation);      \
    long outcome;                                                               \
    if (forged && strcmp(order.what, "short") == 0 && (SIZE) > 1) {             \
        size_t part __attribute__((unused)) = (SIZE) / 3 > 0 ? (SIZE) / 3 : 1;  \
        outcome = SHORT;                                                        \
    } else {                                                                    \
        outcome = REAL;                                                         \
    }                                                                           \
    int problem = errno;                                                        \
    note(KIND, outcome < 0 ? -problem : outcome, forged, path);                 \
    errno = problem;                                                            \
    return outcome;

#define REAL_OF(NAME, TYPE, ...)                                 \
    static TYPE (*real)(__VA_ARGS__);                            \
    if (real == NULL) real = (TYPE(*)(__VA_ARGS__))dlsym(RTLD_NEXT, NAME);

static size_t total(const struct iovec *parts, int number) {
    size_t size = 0;
    for (int at = 0; at < number; at++) size += parts[at].iov_len;
    return size;
}

/* The first bytes of a vector, as a vector of their own in `room`; how many parts it has. */
static int cut_to(const struct iovec *parts, size_t size, struct iovec *room) {
    int at = 0;
    for (; size > 0; at++) {
        room[at] = parts[at];
        if (room[at].iov_len > size) room[at].iov_len = size;
        size -= room[at].iov_len;
    }
    return at;
}

ssize_t write(int fd, const void *data, size_t size) {
    REAL_OF("write", ssize_t, int, const void *, size_t)
    FORGE("write", fd, size, real(fd, data, part), real(fd, data, size))
}

ssize_t writev(int fd, const struct iovec *parts, int number) {
    REAL_OF("writev", ssize_t, int, const struct iovec *, int)
    struct iovec room[IOV_MAX];
    FORGE("write", fd, total(parts, number), real(fd, room, cut_to(parts, part, room)), real(fd, parts, number))
}

#define PWRITE(NAME, TEXT)                                                                            \
    ssize_t NAME(int fd, const void *data, size_t size, off_t at) {                                   \
        REAL_OF(TEXT, ssize_t, int, const void *, size_t, off_t)                                      \
        FORGE("write", fd, size, real(fd, data, part, at), real(fd, data, size, at))                  \
    }
PWRITE(pwrite, "pwrite")
PWRITE(pwrite64, "pwrite64")

#define PWRITEV(NAME, TEXT)                                                                           \
    ssize_t NAME(int fd, const struct iovec *parts, int number, off_t at) {                           \
        REAL_OF(TEXT, ssize_t, int, const struct iovec *, int, off_t)                                 \
        struct iovec room[IOV_MAX];                                                                   \
        FORGE("write", fd, total(parts, number), real(fd, room, cut_to(parts, part, room), at),       \
              real(fd, parts, number, at))                                                            \
    }
PWRITEV(pwritev, "pwritev")
PWRITEV(pwritev64, "pwritev64")

#define PWRITEV2(NAME, TEXT)                                                                          \
    ssize_t NAME(int fd, const struct iovec *parts, int number, off_t at, int flags) {                \
        REAL_OF(TEXT, ssize_t, int, const struct iovec *, int, off_t, int)                            \
        struct iovec room[IOV_MAX];                                                                   \
        FORGE("write", fd, total(parts, number), real(fd, room, cut_to(parts, part, room), at, flags), \
              real(fd, parts, number, at, flags))                                                     \
    }
PWRITEV2(pwritev2, "pwritev2")
PWRITEV2(pwritev64v2, "pwritev64v2")

int fsync(int fd) {
    REAL_OF("fsync", int, int)
    FORGE("sync", fd, 0, 0, real(fd))
}

int fdatasync(int fd) {
    REAL_OF("fdatasync", int, int)
    FORGE("sync", fd, 0, 0, real(fd))
}
