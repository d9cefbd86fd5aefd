#include "daemon/control/names.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/control/inspect.h"
#include "daemon/groups/group.h"
#include "daemon/tcad.h"
#include "proto/handle.h"

struct name {
    struct name *next;
    char text[];
};

struct named {
    struct table_entry entry; /* by the region's id */
    struct name *first, **last;
};

struct collecting {
    struct names *names;
    struct tcad *tcad;
    uid_t viewer;
};

static struct named *named_region(struct names *names, uint64_t region)
{
    struct named *named = table_find(&names->by_region, region);
    if (named)
        return named;
    named = calloc(1, sizeof(*named));
    if (!named)
        return NULL;
    named->last = &named->first;
    table_add(&names->by_region, &named->entry, region, named);
    return named;
}

static void add_name(void *context, uid_t uid, const char *group, const char *text,
                     const uint8_t bytes[HANDLE_BYTES])
{
    const struct collecting *to = context;
    struct handle handle;
    if (!inspect_may_see(to->tcad, to->viewer, uid) || handle_decode(bytes, &handle) < 0 ||
        handle.node != to->tcad->node || handle.incarnation != to->tcad->incarnation)
        return;
    const size_t group_bytes = strlen(group), text_bytes = strlen(text) + 1;
    struct named *named = named_region(to->names, handle.region);
    struct name *name = named ? malloc(sizeof(*name) + group_bytes + 1 + text_bytes) : NULL;
    if (!name)
        return;
    name->next = NULL;
    memcpy(name->text, group, group_bytes);
    name->text[group_bytes] = '/';
    memcpy(name->text + group_bytes + 1, text, text_bytes);
    *named->last = name;
    named->last = &name->next;
    to->names->count++;
}

void names_collect(struct names *names, struct tcad *tcad, uid_t viewer)
{
    struct collecting to = {names, tcad, viewer};
    groups_published(tcad->groups, add_name, &to);
}

static void forget(void *context, void *owner)
{
    struct named *named = owner;
    for (struct name *name = named->first, *next; name; name = next) {
        next = name->next;
        free(name);
    }
    free(named);
}

void names_deinit(struct names *names)
{
    table_each(&names->by_region, forget, NULL);
    table_deinit(&names->by_region);
}

json_t *names_of(const struct names *names, uint64_t region)
{
    const struct named *named = table_find(&names->by_region, region);
    json_t *list = json_array();
    for (const struct name *name = named ? named->first : NULL; name; name = name->next)
        json_array_append_new(list, json_string(name->text));
    return list;
}
