/* The user's wisdom for tcactl. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/core/error.h"
#include "client/core/wisdom.h"
#include "client/include/tca-admin.h"
#include "proto/load.h"

static int find_path(char path[WISDOM_PATH_BYTES])
{
    int r = wisdom_path(path);
    if (r == -ENOENT)
        return error_set(-ENODATA,
                         "there is no wisdom file: TCA_WISDOM is none, or HOME is not set");
    return r;
}

static_assert((int)TCA_RAIL_NAME_BYTES == (int)RAIL_NAME_MAX_BYTES, "both end with NUL");

static struct tca_wisdom describe(const struct wisdom_entry *entry)
{
    struct tca_wisdom wisdom = {.bytes = entry->bytes,
                                .blocks = entry->blocks,
                                .distance = entry->distance,
                                .copy_method = (enum tca_copy_method)entry->method,
                                .stream = entry->stream,
                                .piece_bytes = entry->piece_bytes,
                                .seat = (enum tca_seat)entry->seat,
                                .ns = (double)entry->ns,
                                .load = entry->load_tenths / 10.0,
                                .disturbed = entry->load_tenths > 10 * LOAD_BUSY};
    memcpy(wisdom.rail, entry->rail, sizeof(wisdom.rail));
    snprintf(wisdom.key, sizeof(wisdom.key), "%016llx%016llx", (unsigned long long)entry->key[0],
             (unsigned long long)entry->key[1]);
    return wisdom;
}

int tca_wisdom_read(char **ret_path, struct tca_wisdom **ret_entries, size_t *ret_count)
{
    char path[WISDOM_PATH_BYTES];
    const char *why;
    int r = find_path(path);
    if (r < 0)
        return r;
    struct wisdom *wisdom = malloc(sizeof(*wisdom));
    struct tca_wisdom *entries = calloc(WISDOM_ENTRIES_MAX, sizeof(*entries));
    char *copy = strdup(path);
    r = wisdom && entries && copy ? 0 : error_static(-ENOMEM, "out of memory");
    if (r == 0 && (r = wisdom_read(path, wisdom, &why)) < 0)
        error_set(r, "%s is not used: %s", path, why);
    if (r < 0) {
        free(entries);
        free(copy);
    } else {
        for (uint32_t i = 0; i < wisdom->count; i++)
            entries[i] = describe(&wisdom->entries[i]);
        *ret_path = copy;
        *ret_entries = entries;
        *ret_count = wisdom->count;
    }
    free(wisdom);
    return r;
}

int tca_wisdom_clear(void)
{
    char path[WISDOM_PATH_BYTES];
    int r = find_path(path);
    if (r == 0 && unlink(path) < 0 && errno != ENOENT)
        r = error_set(-errno, "cannot remove %s: %s", path, strerrordesc_np(errno));
    return r;
}
