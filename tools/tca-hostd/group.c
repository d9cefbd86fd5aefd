/* Collective requests: this process is the processor's rank in a group of such processes. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/tca-hostd/delegate.h"

/* Between looks whether the processor still waits. */
enum { LOOK_NS = 200000000 };

/* After an error in a collective request, this process leaves the group, so that no other waits for
 * it. */
static int leave(struct delegate *delegate, int error)
{
    delegate_fail(delegate, error, "%s", tca_error_text());
    delegate->session = tca_close(delegate->session);
    delegate->failed = error;
    return error;
}

static int check_member(struct delegate *delegate)
{
    return delegate->session
               ? 0
               : delegate_fail(delegate, delegate->failed,
                               "an earlier collective request failed with this error");
}

/* ---- joining ---- */

int64_t delegate_join(struct delegate *delegate, const struct host_request *request)
{
    char group[HOST_NAME_BYTES + 32];
    const bool alone = request->name[0] == '\0';
    /* not the processors' own group */
    if (alone)
        snprintf(group, sizeof(group), "hostd-%d-%d", getppid(), getpid());
    else
        snprintf(group, sizeof(group), "%s.hostd", request->name);
    const struct tca_open_args args = {.group = group,
                                       .rank = alone ? 0 : request->rank,
                                       .size = alone ? 1 : request->size,
                                       .name = "tca-hostd",
                                       .timeout_ns = request->timeout_ns};
    if (args.size == 0)
        return delegate_fail(delegate, REFUSED, "group %s of no ranks", request->name);
    int r = tca_open(&args, &delegate->session);
    if (r < 0) {
        delegate->failed = r;
        return delegate_fail(delegate, r, "%s", tca_error_text());
    }
    return 0;
}

/* ---- exchanges ---- */

static int allgather(struct delegate *delegate, const void *blob, size_t bytes, void *ret_all)
{
    int r;
    do
        r = tca_allgather(delegate->session, blob, bytes, ret_all, LOOK_NS);
    while (r == -ETIMEDOUT && !delegate_is_left(delegate));
    return r < 0 ? leave(delegate, r) : 0;
}

int64_t delegate_allgather(struct delegate *delegate, const struct host_request *request)
{
    uint8_t blob[HOST_GATHER_BYTES];
    int r = check_member(delegate);
    if (r < 0)
        return r;
    const void *in = delegate_range(delegate, request->in, request->count);
    void *out =
        request->count > sizeof(blob)
            ? NULL
            : delegate_range(delegate, request->out, request->count * tca_size(delegate->session));
    if (!in || !out)
        return delegate_fail(delegate, REFUSED, "data is outside the processor's memory");
    memcpy(blob, in, request->count);
    return allgather(delegate, blob, request->count, out);
}

/* ---- reductions ---- */

static int check(struct delegate *delegate, const struct host_request *request, uint64_t *ret_bytes)
{
    const int each =
        tca_combine_bytes((enum tca_combine)request->combine, (enum tca_type)request->type);
    if (each < 0)
        return delegate_fail(delegate, REFUSED, "combination %u of type %u", request->combine,
                             request->type);
    if (request->count == 0 || __builtin_mul_overflow(request->count, (uint64_t)each, ret_bytes))
        return delegate_fail(delegate, REFUSED, "a reduction of %llu elements",
                             (unsigned long long)request->count);
    return 0;
}

static bool is_same(const struct host_request *a, const struct host_request *b)
{
    return a->what == b->what && a->count == b->count && a->type == b->type &&
           a->combine == b->combine && (a->what == HOST_ALLREDUCE || a->rank == b->rank);
}

/* Collective, as is prepare(): all ranks have made the same requests. */
static void release(struct delegate *delegate, struct reduction *reduction)
{
    if (!reduction->coll)
        return;
    tca_coll_free(reduction->coll);
    tca_free(delegate->session, reduction->in);
    tca_free(delegate->session, reduction->out);
    *reduction = (struct reduction){0};
}

static int prepare(struct delegate *delegate, const struct host_request *request, uint64_t bytes,
                   struct reduction *reduction)
{
    const struct tca_coll_operator operation = {.combine = (enum tca_combine)request->combine,
                                                .type = (enum tca_type)request->type};
    struct tca *session = delegate->session;
    release(delegate, reduction);
    *reduction = (struct reduction){.of = *request, .bytes = bytes};
    int r = tca_alloc(session, bytes, &reduction->in);
    if (r == 0)
        r = tca_alloc(session, bytes, &reduction->out);
    if (r < 0)
        return r;
    return request->what == HOST_REDUCE
               ? tca_coll_reduce(session, reduction->in, reduction->out, request->count, &operation,
                                 request->rank, NULL, &reduction->coll)
               : tca_coll_allreduce(session, reduction->in, reduction->out, request->count,
                                    &operation, NULL, &reduction->coll);
}

static int find(struct delegate *delegate, const struct host_request *request, uint64_t bytes,
                struct reduction **ret_reduction)
{
    for (uint32_t i = 0; i < REDUCTIONS; i++) {
        struct reduction *known = &delegate->reductions[i];
        if (known->coll && is_same(&known->of, request)) {
            *ret_reduction = known;
            return 0;
        }
    }
    *ret_reduction = &delegate->reductions[delegate->next++ % REDUCTIONS];
    return prepare(delegate, request, bytes, *ret_reduction);
}

static int run(struct delegate *delegate, struct reduction *reduction)
{
    int r = tca_coll_start(reduction->coll);
    if (r == 0)
        do
            r = tca_coll_wait(reduction->coll, LOOK_NS);
        while (r == -ETIMEDOUT && !delegate_is_left(delegate));
    return r;
}

int64_t delegate_reduce(struct delegate *delegate, const struct host_request *request)
{
    struct reduction *reduction;
    uint64_t bytes = 0;
    int r = check(delegate, request, &bytes);
    if (r == 0)
        r = check_member(delegate);
    if (r < 0)
        return r;
    const bool receives =
        request->what == HOST_ALLREDUCE || request->rank == tca_rank(delegate->session);
    const void *in = delegate_range(delegate, request->in, bytes);
    void *out = receives ? delegate_range(delegate, request->out, bytes) : NULL;
    if (!in || (receives && !out))
        return delegate_fail(delegate, REFUSED, "data is outside the processor's memory");
    r = find(delegate, request, bytes, &reduction);
    if (r == 0) {
        memcpy(reduction->in, in, bytes);
        r = run(delegate, reduction);
    }
    if (r < 0)
        return leave(delegate, r);
    if (receives)
        memcpy(out, reduction->out, bytes);
    return 0;
}

/* ---- the end ---- */

int64_t delegate_finalize(struct delegate *delegate, const struct host_request *request)
{
    int r = check_member(delegate);
    if (r < 0)
        return r;
    uint8_t *all = malloc(tca_size(delegate->session));
    if (!all)
        return delegate_fail(delegate, -ENOMEM, "out of memory");
    r = allgather(delegate, "", 1, all); /* from here on, nobody waits for long */
    free(all);
    for (uint32_t i = 0; r == 0 && i < REDUCTIONS; i++)
        release(delegate, &delegate->reductions[i]);
    return r;
}
