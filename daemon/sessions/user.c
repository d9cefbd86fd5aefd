#include "daemon/sessions/user.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/sessions/trim.h"
#include "daemon/tcad.h"

static const char *const names[USER_KINDS] = {
    [USER_SESSIONS] = "sessions",       [USER_REGIONS] = "regions", [USER_PLANS] = "plans",
    [USER_BINDINGS] = "bindings",       [USER_GROUPS] = "groups",   [USER_MESSAGES] = "messages",
    [USER_CONNECTIONS] = "connections", [USER_OFFLOAD] = "offload",
};

const char *user_kind_name(enum user_kind kind)
{
    return names[kind];
}

void users_deinit(struct users *users)
{
    assert(users->by_uid.count == 0 && users->total == 0 && users->memory_bytes == 0);
    table_deinit(&users->by_uid);
}

const struct user *user_find(const struct tcad *tcad, uid_t uid)
{
    return table_find(&tcad->users.by_uid, uid);
}

static struct user *user_get(struct users *users, uid_t uid)
{
    struct user *user = table_find(&users->by_uid, uid);
    if (user)
        return user;
    user = calloc(1, sizeof(*user));
    if (!user)
        return NULL;
    user->users = users;
    user->uid = uid;
    table_add(&users->by_uid, &user->entry, uid, user);
    return user;
}

static void forget_if_idle(struct user *user)
{
    if (user->charges > 0)
        return;
    assert(user->total == 0);
    table_remove(&user->users->by_uid, &user->entry);
    free(user);
}

/* Formats the user's holdings, largest first: "plans 123, sessions 45". */
static void describe(const struct user *user, char *ret_text, size_t text_bytes)
{
    bool listed[USER_KINDS] = {false};
    size_t at = 0;
    ret_text[0] = '\0';
    for (int i = 0; i < USER_KINDS; i++) {
        int most = -1;
        for (int kind = 0; kind < USER_KINDS; kind++)
            if (!listed[kind] && user->bytes[kind] &&
                (most < 0 || user->bytes[kind] > user->bytes[most]))
                most = kind;
        if (most < 0 || at >= text_bytes)
            return;
        listed[most] = true;
        at += (size_t)snprintf(ret_text + at, text_bytes - at, "%s%s %" PRIu64, at ? ", " : "",
                               names[most], user->bytes[most]);
    }
}

static int check(const struct tcad *tcad, const struct user *user, uint64_t bytes, const char *what,
                 char *text, size_t text_bytes)
{
    const uint64_t of_user = tcad->conf->limits.bytes_per_user, of_all = tcad->conf->limits.bytes;
    char held[200];
    if (bytes > of_user || user->total > of_user - bytes) {
        describe(user, held, sizeof(held));
        snprintf(text, text_bytes,
                 "%s needs %" PRIu64 " bytes of tcad's memory; user %u holds %" PRIu64
                 " of %" PRIu64
                 " (limits.bytes_per_user)%s%s%s: close sessions, release plans, or have the limit "
                 "raised",
                 what, bytes, user->uid, user->total, of_user, held[0] ? " (" : "", held,
                 held[0] ? ")" : "");
        return -EDQUOT;
    }
    if (bytes > of_all || tcad->users.total > of_all - bytes) {
        snprintf(text, text_bytes,
                 "%s needs %" PRIu64 " bytes of tcad's memory; all users hold %" PRIu64
                 " of %" PRIu64 " (limits.bytes): wait for others, or have the limit raised",
                 what, bytes, tcad->users.total, of_all);
        return -EDQUOT;
    }
    return 0;
}

int charge_take(struct tcad *tcad, struct charge *charge, uid_t uid, enum user_kind kind,
                uint64_t bytes, const char *what, char *text, size_t text_bytes)
{
    struct user *user = charge->user ? charge->user : user_get(&tcad->users, uid);
    if (!user) {
        snprintf(text, text_bytes, "no memory for %s", what);
        return -ENOMEM;
    }
    int r = check(tcad, user, bytes, what, text, text_bytes);
    if (r < 0) {
        forget_if_idle(user);
        return r;
    }
    user->charges += !charge->user;
    user->count[kind] += !charge->user;
    charge->user = user;
    charge->kind = kind;
    charge->bytes += bytes;
    user->bytes[kind] += bytes;
    user->total += bytes;
    tcad->users.total += bytes;
    if (tcad->users.peak < tcad->users.total)
        tcad->users.peak = tcad->users.total;
    return 0;
}

void charge_lower(struct charge *charge, uint64_t bytes)
{
    struct user *user = charge->user;
    if (!user)
        return;
    assert(charge->bytes >= bytes && user->bytes[charge->kind] >= bytes);
    charge->bytes -= bytes;
    user->bytes[charge->kind] -= bytes;
    user->total -= bytes;
    user->users->total -= bytes;
    if (user->users->trim)
        trim_consider(user->users->trim);
}

void charge_memory(struct charge *charge, uint64_t bytes)
{
    charge->memory_bytes += bytes;
    charge->user->memory_bytes += bytes;
    charge->user->users->memory_bytes += bytes;
}

void charge_memory_freed(struct charge *charge)
{
    const uint64_t bytes = charge->memory_bytes - charge->freed_bytes;
    if (bytes == 0)
        return;
    charge->freed_bytes += bytes;
    charge->user->freed_bytes += bytes;
    charge->user->users->freed_bytes += bytes;
}

void charge_memory_quarantined(struct charge *charge)
{
    const uint64_t bytes = charge->freed_bytes - charge->quarantined_bytes;
    charge->user->descriptors -= charge->descriptors;
    charge->descriptors = 0;
    charge->quarantined_bytes += bytes;
    charge->user->quarantined_bytes += bytes;
    charge->user->users->quarantined_bytes += bytes;
}

void charge_descriptors(struct charge *charge, uint32_t count)
{
    charge->descriptors += count;
    charge->user->descriptors += count;
}

void charge_descriptors_lower(struct charge *charge, uint32_t count)
{
    charge->descriptors -= count;
    charge->user->descriptors -= count;
}

void charge_in_flight(struct charge *charge, uint32_t count)
{
    charge->in_flight += count;
    charge->user->in_flight += count;
}

void charge_drop(struct charge *charge)
{
    struct user *user = charge->user;
    if (!user)
        return;
    charge_lower(charge, charge->bytes);
    user->memory_bytes -= charge->memory_bytes;
    user->freed_bytes -= charge->freed_bytes;
    user->quarantined_bytes -= charge->quarantined_bytes;
    user->users->quarantined_bytes -= charge->quarantined_bytes;
    user->users->memory_bytes -= charge->memory_bytes;
    user->users->freed_bytes -= charge->freed_bytes;
    user->descriptors -= charge->descriptors;
    user->in_flight -= charge->in_flight;
    user->count[charge->kind]--;
    user->charges--;
    *charge = (struct charge){0};
    forget_if_idle(user);
}
