#include "daemon/sessions/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/sessions/region.h"

static int maps_fd = -1; /* /proc/self/maps, opened early while descriptors are available */
static atomic_flag reading = ATOMIC_FLAG_INIT;
static _Atomic uint64_t replaced;
static struct sigaction before;
static _Thread_local void *last; /* address of this thread's last fault, if it was not handled */

struct range {
    uintptr_t begin, end;
};

/* "7f0000000000-7f0000200000 rw-s ... /memfd:tca-region (deleted)" */
static const char *parse_number(const char *at, uintptr_t *ret_value)
{
    uintptr_t value = 0;
    for (;; at++) {
        if (*at >= '0' && *at <= '9')
            value = value << 4 | (uintptr_t)(*at - '0');
        else if (*at >= 'a' && *at <= 'f')
            value = value << 4 | (uintptr_t)(*at - 'a' + 10);
        else
            break;
    }
    *ret_value = value;
    return at;
}

/* Whether a NUL-terminated line describes a region's mapping that contains the address. All dmabufs
 * that tcad maps are regions. */
static bool is_region(const char *line, uintptr_t address, struct range *ret_range)
{
    struct range range;
    line = parse_number(line, &range.begin);
    if (*line != '-')
        return false;
    line = parse_number(line + 1, &range.end);
    if (address < range.begin || address >= range.end ||
        (!strstr(line, "/memfd:" REGION_MEMFD) && !strstr(line, "/dmabuf:")))
        return false;
    *ret_range = range;
    return true;
}

/* Runs in a signal handler: must not allocate or lock. */
static bool find(uintptr_t address, struct range *ret_range)
{
    char text[8192];
    off_t at = 0;
    ssize_t bytes;
    while ((bytes = pread(maps_fd, text, sizeof(text) - 1, at)) > 0) {
        size_t used = 0;
        text[bytes] = '\0';
        for (char *end; (end = strchr(text + used, '\n')); used = (size_t)(end - text) + 1) {
            *end = '\0';
            if (is_region(text + used, address, ret_range))
                return true;
        }
        if (used == 0)
            return false; /* a line of this length is not a region's */
        at += (off_t)used;
    }
    return false;
}

/* Reports occurrences 1, 2, 4, 8 and so on. */
static void count(void)
{
    static const char text[] =
        "a client or a device has removed memory of a region that tcad was using: the region has "
        "been cut off (metric tcad_regions_cut_off)\n";
    const uint64_t so_far = atomic_fetch_add_explicit(&replaced, 1, memory_order_relaxed);
    if ((so_far & (so_far + 1)) == 0 && write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
        return; /* the message is lost */
}

static void handle(int number, siginfo_t *info, void *context)
{
    const int error = errno;
    struct range range;
    while (atomic_flag_test_and_set_explicit(&reading, memory_order_acquire))
        ; /* another thread's handler holds it */
    const bool ours =
        info->si_code == BUS_ADRERR && find((uintptr_t)info->si_addr, &range) &&
        mmap((void *)range.begin, range.end - range.begin, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
    atomic_flag_clear_explicit(&reading, memory_order_release);
    if (ours)
        count();
    else if (last == info->si_addr)
        sigaction(number, &before, NULL); /* a second time: the next fault has its default effect */
    last = ours ? NULL : info->si_addr;   /* the first time: another thread may have replaced it */
    errno = error;
}

int guard_install(void)
{
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    if (maps_fd < 0)
        maps_fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (maps_fd < 0 || sigaction(SIGBUS, &action, &before) < 0)
        return -errno;
    return 0;
}

uint64_t guard_replaced(void)
{
    return atomic_load_explicit(&replaced, memory_order_relaxed);
}
