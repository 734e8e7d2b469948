/* LD_PRELOAD: the time of day of a process is ahead by the seconds in the file CLOCK_AHEAD (64 bits), from one call to
 * the next. Monotonic clocks are as they were. See tests/support/own_clock.py. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *ahead;
static int (*real_clock_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("CLOCK_AHEAD");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    real_clock_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    if (file >= 0) {
        void *mapped = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
        ahead = mapped == MAP_FAILED ? NULL : mapped;
        close(file);
    }
}

int clock_gettime(clockid_t clock, struct timespec *found) {
    if (!real_clock_gettime) begin();
    int result = real_clock_gettime(clock, found);
    if (!result && ahead && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) found->tv_sec += *ahead;
    return result;
}

int gettimeofday(struct timeval *restrict found, void *restrict zone) {
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
    found->tv_sec = now.tv_sec;
    found->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *found) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (found) *found = now.tv_sec;
    return now.tv_sec;
}
