/* Notifications from this process to itself, counted by slot and tag. */
#include <stdlib.h>

#include "client/compat/notice.h"

static struct {
    struct self_count {
        struct self_key key;
        uint64_t count; /* 0: free for another key */
    } * counts;
    size_t used, room;
} self;

static struct self_count *find(struct self_key key, struct self_count **ret_free)
{
    for (size_t i = 0; i < self.used; i++) {
        struct self_count *count = &self.counts[i];
        if (count->count == 0)
            *ret_free = count;
        else if (count->key.slot == key.slot && count->key.tag == key.tag)
            return count;
    }
    return NULL;
}

static struct self_count *add(void)
{
    if (self.used == self.room) {
        size_t room = self.room ? 2 * self.room : 64;
        struct self_count *counts = realloc(self.counts, room * sizeof(*counts));
        if (!counts)
            return NULL;
        self.counts = counts;
        self.room = room;
    }
    return &self.counts[self.used++];
}

tcaresult self_raise(struct self_key key)
{
    struct self_count *unused = NULL, *count = find(key, &unused);
    if (!count) {
        count = unused ? unused : add();
        if (!count)
            return compat_fail(TCA_ERROR_OUT_OF_MEMORY,
                               "out of memory for %zu notifications from this process to itself",
                               self.used + 1);
        *count = (struct self_count){.key = key};
    }
    count->count++;
    return TCA_SUCCESS;
}

bool self_take(struct self_key key)
{
    struct self_count *unused = NULL, *count = find(key, &unused);
    if (!count)
        return false;
    count->count--;
    return true;
}
