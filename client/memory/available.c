#include "client/memory/available.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { PATH_BYTES = 1024 };

/* Reads the number after the key, in the first line of the file that starts with the key. */
static bool read_number(const char *path, const char *key, uint64_t *ret_number)
{
    char line[256];
    bool found = false;
    FILE *from = fopen(path, "re");

    while (from && !found && fgets(line, sizeof(line), from))
        found = strncmp(line, key, strlen(key)) == 0 &&
                sscanf(line + strlen(key), "%" SCNu64, ret_number) == 1;
    if (from)
        fclose(from);
    return found;
}

/* Names in /proc/self/cgroup and of the files, for both versions of control groups. */
static const struct version {
    const char *controller, *mount;
    const char *limit, *used, *cache;
} versions[] = {
    {"", "/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file "},
    {"memory", "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
     "total_inactive_file "},
};

/* Returns the path in a line such as "4:memory:/slurm/job_7" or, for version 2, "0::/user.slice";
 * NULL: another controller. */
static char *match(char *line, const struct version *version)
{
    char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
    if (!path)
        return NULL;
    *path++ = '\0';
    path[strcspn(path, "\n")] = '\0';
    return strcmp(names + 1, version->controller) == 0 ? path : NULL;
}

static bool find_group(const struct version *version, char path[static PATH_BYTES])
{
    char line[PATH_BYTES], *found = NULL;
    FILE *from = fopen("/proc/self/cgroup", "re");

    while (from && !found && fgets(line, sizeof(line), from))
        found = match(line, version);
    if (from)
        fclose(from);
    return found && snprintf(path, PATH_BYTES, "%s%s", version->mount, found) < PATH_BYTES;
}

static bool read_file(const char *group, const char *file, const char *key, uint64_t *ret_number)
{
    char path[PATH_BYTES + 64];
    snprintf(path, sizeof(path), "%s/%s", group, file);
    return read_number(path, key, ret_number);
}

/* Inactive page cache counts as available: the kernel reclaims it at the limit. */
static uint64_t left_in(const struct version *version, const char *group)
{
    uint64_t most, used, cache = 0;
    if (!read_file(group, version->limit, "", &most) || /* "max": no limit */
        !read_file(group, version->used, "", &used))
        return UINT64_MAX;
    read_file(group, "memory.stat", version->cache, &cache);
    used -= cache < used ? cache : used;
    return used < most ? most - used : 0;
}

/* The least of all groups up to the root: a job's limit applies to its steps. */
static uint64_t left_in_all(const struct version *version)
{
    char group[PATH_BYTES];
    uint64_t least = UINT64_MAX;
    if (!find_group(version, group))
        return least;
    const size_t root = strlen(version->mount);
    for (char *end = group + strlen(group); end; end = strrchr(group + root, '/')) {
        *end = '\0';
        uint64_t left = left_in(version, group);
        if (left < least)
            least = left;
    }
    return least;
}

uint64_t available_bytes(const char **ret_limit)
{
    uint64_t kib, least = UINT64_MAX;
    *ret_limit = "MemAvailable of /proc/meminfo";
    if (read_number("/proc/meminfo", "MemAvailable:", &kib))
        least = kib * 1024;
    for (size_t i = 0; i < sizeof(versions) / sizeof(*versions); i++) {
        uint64_t left = left_in_all(&versions[i]);
        if (left < least) {
            least = left;
            *ret_limit = "the memory limit of this job's or service's control group";
        }
    }
    return least;
}
