/* Which mappings a range consists of, and whether they can be shared in place. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "client/core/error.h"
#include "client/memory/inplace.h"

/* A mapping, as /proc/self/maps describes it (proc_pid_maps(5)). */
struct mapping {
    uintptr_t first, end;
    char access[5]; /* "rwxp" or "rwxs" */
    uint64_t offset_bytes;
    uint64_t inode; /* 0: anonymous */
    char name[256];
    bool locked;
};

/* The value of a line of /proc/self/status, in kB. 0: none. */
static uint64_t status_kb(const char *key)
{
    char line[128];
    uint64_t value = 0;
    FILE *from = fopen("/proc/self/status", "re");
    if (!from)
        return 0;
    while (fgets(line, sizeof(line), from))
        if (strncmp(line, key, strlen(key)) == 0)
            sscanf(line + strlen(key), " %" SCNu64, &value);
    fclose(from);
    return value;
}

static bool parse(const char *line, struct mapping *ret_mapping)
{
    struct mapping *to = ret_mapping;
    memset(to, 0, sizeof(*to));
    return sscanf(line,
                  "%" SCNxPTR "-%" SCNxPTR " %4[rwxps-] %" SCNx64 " %*x:%*x %" SCNu64 " %255[^\n]",
                  &to->first, &to->end, to->access, &to->offset_bytes, &to->inode, to->name) >= 5;
}

static int refuse(const struct mapping *mapping, const char *why)
{
    return error_set(-EOPNOTSUPP,
                     "the memory at 0x%" PRIxPTR " to 0x%" PRIxPTR
                     " (%s%s%s) cannot be shared in place: %s",
                     mapping->first, mapping->end, mapping->access, *mapping->name ? " " : "",
                     mapping->name, why);
}

/* Its pages are those of the process's memfd. */
static bool is_own(const struct mapping *mapping, ino_t own)
{
    return own && mapping->inode == own && mapping->access[3] == 's';
}

static bool is_in_place(const struct mapping *mapping)
{
    return mapping->offset_bytes == mapping->first;
}

static int check(const struct mapping *mapping, ino_t own)
{
    const char *name = mapping->name;
    if (mapping->access[0] != 'r')
        return error_set(-EFAULT,
                         "the memory at 0x%" PRIxPTR " to 0x%" PRIxPTR " (%s) is not readable",
                         mapping->first, mapping->end, mapping->access);
    if (is_own(mapping, own) && is_in_place(mapping))
        return 0;
    if (mapping->access[3] == 's' && strncmp(name, "/memfd:tca-", strlen("/memfd:tca-")) == 0)
        return refuse(mapping, "it belongs to a region already: tca_region_of() finds it");
    if (mapping->access[3] == 's')
        return refuse(mapping, "it is a mapping that is shared with a file, a device or other "
                               "processes: copy the data to memory of tca_alloc()");
    if (strcmp(name, "[stack]") == 0 && gettid() != getpid())
        return refuse(mapping,
                      "it is another thread's stack: use memory of malloc(), or static data");
    if (mapping->access[2] == 'x')
        return refuse(mapping, "it contains code");
    if (strncmp(name, "[v", 2) == 0) /* [vvar], [vdso], [vsyscall] */
        return refuse(mapping, "it is the kernel's");
    if (strncmp(name, "/anon_hugepage", strlen("/anon_hugepage")) == 0 ||
        strncmp(name, "/dev/hugepages", strlen("/dev/hugepages")) == 0)
        return refuse(mapping, "it consists of reserved huge pages: use tca_region_alloc(), and "
                               "memory.huge_pages of tcad.conf");
    return 0;
}

static int protection_of(const struct mapping *mapping)
{
    return (mapping->access[0] == 'r' ? PROT_READ : 0) |
           (mapping->access[1] == 'w' ? PROT_WRITE : 0) |
           (mapping->access[2] == 'x' ? PROT_EXEC : 0);
}

struct finding {
    uintptr_t at, end; /* everything before `at` has been found, or skipped */
    ino_t own;
    bool all;      /* the range must be mapped, and can be shared; else only what is own counts */
    bool in_place; /* of that, only what is in its place */
    struct inplace_parts *parts;
};

static int add(struct inplace_parts *parts, const struct inplace_part *part)
{
    if (parts->count == parts->room) {
        const size_t room = parts->room ? 2 * parts->room : 8;
        void *list = realloc(parts->list, room * sizeof(*parts->list));
        if (!list)
            return error_static(-ENOMEM, "out of memory");
        parts->list = list;
        parts->room = room;
    }
    parts->list[parts->count++] = *part;
    return 0;
}

/* The next mapping that overlaps with the rest of the range. */
static int take(struct finding *finding, const struct mapping *mapping)
{
    const bool shared = is_own(mapping, finding->own);
    const uintptr_t first = mapping->first > finding->at ? mapping->first : finding->at;
    if (finding->all) {
        if (mapping->first > finding->at)
            return 0; /* a gap: reported at the end */
        int r = check(mapping, finding->own);
        if (r < 0)
            return r;
    }
    finding->at = mapping->end < finding->end ? mapping->end : finding->end;
    if (!finding->all && (!shared || (finding->in_place && !is_in_place(mapping))))
        return 0;
    return add(finding->parts, &(struct inplace_part){.first = first,
                                                      .end = finding->at,
                                                      .protection = protection_of(mapping),
                                                      .anonymous = mapping->inode == 0,
                                                      .locked = mapping->locked,
                                                      .shared = shared});
}

/* /proc/self/smaps has lines about each mapping after the one that begins it. What is locked is
 * only there; the kernel walks page tables for them. */
static int walk(struct finding *finding, FILE *from, bool details)
{
    struct mapping mapping, next;
    bool pending = false; /* `mapping` has not been taken */
    char line[512];
    int r = 0;
    while (r == 0 && finding->at < finding->end && fgets(line, sizeof(line), from)) {
        if (pending && strncmp(line, "VmFlags:", strlen("VmFlags:")) == 0)
            mapping.locked = strstr(line, " lo") != NULL;
        if (!parse(line, &next))
            continue;
        if (pending)
            r = take(finding, &mapping);
        mapping = next;
        pending = mapping.end > finding->at && mapping.first < finding->end;
        if (r == 0 && pending && !details) {
            r = take(finding, &mapping);
            pending = false;
        }
    }
    return r == 0 && pending && finding->at < finding->end ? take(finding, &mapping) : r;
}

static int find(struct finding *finding)
{
    const bool details = status_kb("VmLck:") > 0;
    FILE *from = fopen(details ? "/proc/self/smaps" : "/proc/self/maps", "re");
    if (!from)
        return error_set(-errno, "cannot read /proc/self/maps: %s", strerrordesc_np(errno));
    finding->parts->count = 0;
    int r = walk(finding, from, details);
    fclose(from);
    return r;
}

/* The main thread's stack ends where the program began with it (startstack of proc_pid_stat(5)),
 * and grows. It is more than one mapping once a part of it was shared. */
static void main_stack(uintptr_t *ret_first, uintptr_t *ret_end)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), most = UINT64_C(1) << 30;
    struct rlimit limit;
    char text[2048] = "";
    unsigned long long start;
    FILE *from = fopen("/proc/self/stat", "re");
    if (!from)
        return;
    const bool known = fgets(text, sizeof(text), from);
    fclose(from);
    const char *at = known ? strrchr(text, ')') : NULL; /* after it, field 3 */
    for (unsigned field = 2; at && field < 28; field++)
        at = strchr(at + 1, ' ');
    if (!at || sscanf(at, "%llu", &start) != 1 || start == 0)
        return;
    *ret_end = ((uintptr_t)start + page) & ~(page - 1);
    *ret_first = *ret_end - (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < most
                                 ? (uintptr_t)limit.rlim_cur
                                 : most);
}

void inplace_stack(uintptr_t *ret_first, uintptr_t *ret_end)
{
    pthread_attr_t attributes;
    void *stack;
    size_t bytes;
    *ret_first = *ret_end = 0;
    if (gettid() == getpid()) {
        main_stack(ret_first, ret_end);
    } else if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        if (pthread_attr_getstack(&attributes, &stack, &bytes) == 0) {
            *ret_first = (uintptr_t)stack;
            *ret_end = *ret_first + bytes;
        }
        pthread_attr_destroy(&attributes);
    }
}

/* The calling thread's control block, which the kernel and fork() write to. pthread_self() is its
 * address; the thread pointer is its address on x86 only, and its end on Arm. */
static int check_thread(uintptr_t first, uintptr_t end)
{
    enum { CONTROL_BLOCK_BYTES = 4096 };
    const uintptr_t thread = (uintptr_t)pthread_self();
    if (first < thread + CONTROL_BLOCK_BYTES && end > thread)
        return error_set(-EOPNOTSUPP,
                         "the memory at 0x%" PRIxPTR " to 0x%" PRIxPTR
                         " cannot be shared in place: it shares a page with this thread's control "
                         "block: use memory of malloc()",
                         first, end);
    return 0;
}

int inplace_check(uintptr_t first, uintptr_t end, ino_t own, struct inplace_parts *parts)
{
    struct finding finding = {.at = first, .end = end, .own = own, .all = true, .parts = parts};
    int r = check_thread(first, end);
    if (r == 0)
        r = find(&finding);
    if (r == 0 && finding.at < end)
        return error_set(-EFAULT, "nothing is mapped at 0x%" PRIxPTR " in this process",
                         finding.at);
    return r;
}

int inplace_find(uintptr_t first, uintptr_t end, ino_t own, bool in_place,
                 struct inplace_parts *parts)
{
    struct finding finding = {
        .at = first, .end = end, .own = own, .in_place = in_place, .parts = parts};
    return find(&finding);
}
