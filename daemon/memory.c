#include "daemon/memory.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* The number in the first line of the file that begins with the key. */
static bool read_number(const char *path, const char *key, uint64_t *ret_number)
{
    char line[256];
    bool found = false;
    FILE *from = fopen(path, "re");

    while (from && !found && fgets(line, sizeof line, from))
        found = strncmp(line, key, strlen(key)) == 0 &&
                sscanf(line + strlen(key), "%" SCNu64, ret_number) == 1;
    if (from)
        fclose(from);
    return found;
}

static bool read_cgroup(const char *cgroup, const char *file, const char *key, uint64_t *ret_number)
{
    char path[640];
    int length = snprintf(path, sizeof path, "/sys/fs/cgroup%s/%s", cgroup, file);
    return length > 0 && length < (int)sizeof path && read_number(path, key, ret_number);
}

/* The path below /sys/fs/cgroup; version 2 only, "0::/system.slice/tcad.service". */
static bool find_cgroup(char *path, size_t path_bytes)
{
    char line[512];
    bool found = false;
    FILE *from = fopen("/proc/self/cgroup", "re");

    while (from && !found && fgets(line, sizeof line, from)) {
        line[strcspn(line, "\n")] = '\0';
        found = strncmp(line, "0::", 3) == 0;
    }
    if (from)
        fclose(from);
    if (found)
        snprintf(path, path_bytes, "%s", line + 3);
    return found;
}

/* Page cache that nobody uses would be dropped before the limit hurts. */
static uint64_t cgroup_available(void)
{
    char cgroup[512];
    uint64_t most, used, cache = 0;
    if (!find_cgroup(cgroup, sizeof cgroup) || !read_cgroup(cgroup, "memory.max", "", &most) ||
        !read_cgroup(cgroup, "memory.current", "", &used))
        return UINT64_MAX; /* "max" is no number */
    read_cgroup(cgroup, "memory.stat", "inactive_file ", &cache);
    used -= cache < used ? cache : used;
    return used < most ? most - used : 0;
}

uint64_t memory_available_bytes(void)
{
    uint64_t kib, machine = UINT64_MAX;
    if (read_number("/proc/meminfo", "MemAvailable:", &kib))
        machine = kib * 1024;
    uint64_t group = cgroup_available();
    return group < machine ? group : machine;
}
