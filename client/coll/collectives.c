/* The operations: from arguments to shapes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/coll/coll.h"
#include "client/core/error.h"

static int out_of_memory(void)
{
    return error_static(-ENOMEM, "out of memory");
}

struct tca_coll *coll_begin(struct tca *session, enum coll_operation operation,
                            const struct tca_coll_args *args)
{
    struct tca_coll *coll = calloc(1, sizeof(*coll));

    if (!coll)
        return NULL;
    if (coll_siblings_join(session, &coll->siblings) < 0) {
        free(coll);
        return NULL;
    }
    coll->session = session;
    coll->group = group_use(args ? args->plan.group : NULL);
    coll->shape = (struct coll_shape){.operation = operation,
                                      .places = {.size = group_size(session, coll->group)},
                                      .element_bytes = 1};
    return coll;
}

/* ---- checks: 0 or an error of this rank, of which the others are told */

static int check_product(uint64_t count, uint64_t bytes)
{
    uint64_t product;

    if (__builtin_mul_overflow(count, bytes, &product) || product >= (uint64_t)1 << 48)
        return error_set(-EINVAL,
                         "%llu elements of %llu bytes: buffers must be shorter than 2^48 bytes",
                         (unsigned long long)count, (unsigned long long)bytes);
    return 0;
}

static int check_root(const struct tca_coll *coll, uint32_t root)
{
    if (root >= coll->shape.places.size)
        return error_set(-EINVAL, "root %u: the group has the ranks 0 to %u", root,
                         coll->shape.places.size - 1);
    return 0;
}

static int check_memory(const struct tca_coll *coll)
{
    if (!coll->out && coll->out_bytes > 0)
        return error_static(-EINVAL, "out is NULL");
    if (!coll->in && coll->in_bytes > 0)
        return error_static(-EINVAL, "in is NULL, and this operation cannot be done in place");
    return 0;
}

static int element_bytes(const struct tca_coll_operator *operation, uint64_t *ret_bytes)
{
    if (operation->combine == TCA_COMBINE_REPLACE) {
        if (!operation->function || operation->element_bytes == 0)
            return error_static(
                -EINVAL,
                "a reduction needs an operator, or a function and element_bytes of at least 1");
        *ret_bytes = operation->element_bytes;
        return 0;
    }
    int bytes = tca_combine_bytes(operation->combine, operation->type);
    if (bytes < 0)
        return bytes;
    *ret_bytes = (uint64_t)bytes;
    return 0;
}

static int set_operator(struct tca_coll *coll, const struct tca_coll_operator *operation)
{
    static const struct tca_coll_operator none;
    uint64_t bytes = 0;
    int r = element_bytes(operation ? operation : &none, &bytes);

    if (r < 0)
        return r;
    coll->reduction = *operation;
    coll->shape.element_bytes = bytes;
    coll->shape.ordered = !operation->combine && operation->ordered;
    return 0;
}

/* ---- spans */

static int check_span(struct coll_span span)
{
    uint64_t end;

    if (__builtin_add_overflow(span.offset, span.bytes, &end) || end >= (uint64_t)1 << 48)
        return error_set(-EINVAL,
                         "a block of %llu bytes at %llu: buffers must be shorter than 2^48 bytes",
                         (unsigned long long)span.bytes, (unsigned long long)span.offset);
    return 0;
}

/* Sets the spans from an array or, if that is NULL, to blocks of `bytes` bytes, and *ret_end to
 * their end. */
static int set_spans(struct tca_coll *coll, const struct tca_coll_span *spans, uint64_t bytes,
                     uint64_t *ret_end)
{
    uint64_t end = 0;
    int r = 0;

    coll->spans = calloc(coll->shape.places.size, sizeof(*coll->spans));
    if (!coll->spans)
        return out_of_memory();
    coll->shape.spans = coll->spans;
    for (uint32_t i = 0; r == 0 && i < coll->shape.places.size; i++) {
        struct coll_span *span = &coll->spans[i];
        *span = spans ? (struct coll_span){spans[i].offset_bytes, spans[i].bytes}
                      : (struct coll_span){i * bytes, bytes};
        r = check_span(*span);
        if (span->offset + span->bytes > end)
            end = span->offset + span->bytes;
    }
    *ret_end = end;
    return r;
}

/* ---- operations without reduction */

int tca_coll_barrier(struct tca *session, const struct tca_coll_args *args,
                     struct tca_coll **ret_coll)
{
    struct tca_coll *coll = coll_begin(session, COLL_BARRIER, args);

    return coll ? coll_make(coll, 0, args, ret_coll) : out_of_memory();
}

int tca_coll_broadcast(struct tca *session, void *memory, uint64_t bytes, uint32_t root,
                       const struct tca_coll_args *args, struct tca_coll **ret_coll)
{
    struct tca_coll *coll = coll_begin(session, COLL_BROADCAST, args);

    if (!coll)
        return out_of_memory();
    coll->shape.root = root;
    coll->shape.bytes = coll->out_bytes = bytes;
    coll->out = memory;
    int r = check_root(coll, root);
    if (r >= 0)
        r = check_product(bytes, 1);
    return coll_make(coll, r < 0 ? r : check_memory(coll), args, ret_coll);
}

/* regular: blocks of `bytes` bytes, else spans */
static int allgather(struct tca *session, const void *in, void *out, bool regular,
                     const struct tca_coll_span *spans, uint64_t bytes,
                     const struct tca_coll_args *args, struct tca_coll **ret_coll)
{
    struct tca_coll *coll = coll_begin(session, COLL_ALLGATHER, args);

    if (!coll)
        return out_of_memory();
    coll->shape.regular = regular;
    coll->shape.bytes = bytes;
    coll->shape.in_place = !in;
    coll->out = out;
    int r = check_product(bytes, coll->shape.places.size);
    if (r >= 0 && !regular && !spans)
        r = error_static(-EINVAL, "spans is NULL");
    if (r >= 0)
        r = set_spans(coll, spans, bytes, &coll->out_bytes);
    if (r >= 0 && in) {
        coll->in = in;
        coll->in_bytes = coll->spans[coll_rank(coll)].bytes;
    }
    return coll_make(coll, r < 0 ? r : check_memory(coll), args, ret_coll);
}

int tca_coll_allgather(struct tca *session, const void *in, void *out, uint64_t bytes,
                       const struct tca_coll_args *args, struct tca_coll **ret_coll)
{
    return allgather(session, in, out, true, NULL, bytes, args, ret_coll);
}

int tca_coll_allgatherv(struct tca *session, const void *in, void *out,
                        const struct tca_coll_span *spans, const struct tca_coll_args *args,
                        struct tca_coll **ret_coll)
{
    return allgather(session, in, out, false, spans, 0, args, ret_coll);
}

int tca_coll_alltoall(struct tca *session, const void *in, void *out, uint64_t bytes,
                      const struct tca_coll_args *args, struct tca_coll **ret_coll)
{
    struct tca_coll *coll = coll_begin(session, COLL_ALLTOALL, args);

    if (!coll)
        return out_of_memory();
    coll->shape.regular = true;
    coll->shape.bytes = bytes;
    coll->in = in;
    coll->out = out;
    int r = check_product(bytes, coll->shape.places.size);
    if (r >= 0)
        r = set_spans(coll, NULL, bytes, &coll->in_bytes);
    coll->out_bytes = coll->in_bytes;
    coll->targets = calloc(coll->shape.places.size, sizeof(*coll->targets));
    coll->shape.targets = coll->targets;
    if (!coll->targets)
        r = out_of_memory();
    for (uint32_t rank = 0; r >= 0 && rank < coll->shape.places.size; rank++)
        coll->targets[rank] = coll_rank(coll) * bytes;
    return coll_make(coll, r < 0 ? r : check_memory(coll), args, ret_coll);
}

/* ---- reductions */

/* Calls `make` unless something is wrong already. */
static int begin_reduction(struct tca *session, enum coll_operation kind, const void *in, void *out,
                           uint64_t count, const struct tca_coll_operator *operation,
                           const struct tca_coll_args *args, struct tca_coll **ret_coll)
{
    struct tca_coll *coll = coll_begin(session, kind, args);

    *ret_coll = coll;
    if (!coll)
        return out_of_memory();
    int r = set_operator(coll, operation);
    if (r >= 0)
        r = check_product(count, coll->shape.element_bytes);
    if (r < 0)
        return r;
    coll->in = in;
    coll->out = out;
    coll->shape.bytes = count * coll->shape.element_bytes;
    coll->in_bytes = coll->out_bytes = coll->shape.bytes;
    return 0;
}

int tca_coll_reduce(struct tca *session, const void *in, void *out, uint64_t count,
                    const struct tca_coll_operator *operation, uint32_t root,
                    const struct tca_coll_args *args, struct tca_coll **ret_coll)
{
    struct tca_coll *coll;
    int r = begin_reduction(session, COLL_REDUCE, in, out, count, operation, args, &coll);

    if (!coll)
        return r;
    coll->shape.root = root;
    if (r >= 0)
        r = check_root(coll, root);
    if (coll_rank(coll) != root) {
        coll->out = NULL;
        coll->out_bytes = 0;
    } else if (!in) {
        coll->shape.in_place = true;
        coll->in = coll->out;
    }
    return coll_make(coll, r < 0 ? r : check_memory(coll), args, ret_coll);
}

int tca_coll_allreduce(struct tca *session, const void *in, void *out, uint64_t count,
                       const struct tca_coll_operator *operation, const struct tca_coll_args *args,
                       struct tca_coll **ret_coll)
{
    struct tca_coll *coll;
    int r = begin_reduction(session, COLL_ALLREDUCE, in, out, count, operation, args, &coll);

    if (!coll)
        return r;
    if (!in) {
        coll->shape.in_place = true;
        coll->in = coll->out;
    }
    return coll_make(coll, r < 0 ? r : check_memory(coll), args, ret_coll);
}

int coll_make_same(struct tca *session, void *memory, uint64_t count,
                   const struct tca_coll_operator *operation, const struct tca_coll_args *args,
                   struct tca_coll **ret_coll)
{
    struct tca_coll *coll;
    int r = begin_reduction(session, COLL_ALLREDUCE, NULL, memory, count, operation, args, &coll);

    if (!coll)
        return r;
    coll->is_same = true;
    coll->in = coll->out;
    return coll_make(coll, r, args, ret_coll);
}

static int set_counts(struct tca_coll *coll, const uint64_t *counts)
{
    uint64_t each = coll->shape.element_bytes, total = 0;
    int r = set_spans(coll, NULL, 0, &coll->in_bytes);

    if (r >= 0 && !counts)
        r = error_static(-EINVAL, "counts is NULL");
    for (uint32_t rank = 0; r >= 0 && rank < coll->shape.places.size; rank++) {
        r = check_product(counts[rank], each);
        if (r < 0)
            return r;
        coll->spans[rank] = (struct coll_span){total, counts[rank] * each};
        total += counts[rank] * each;
        r = check_product(total, 1);
    }
    coll->in_bytes = total;
    coll->out_bytes = coll->spans ? coll->spans[coll_rank(coll)].bytes : 0;
    return r;
}

int tca_coll_reduce_scatter(struct tca *session, const void *in, void *out, const uint64_t *counts,
                            const struct tca_coll_operator *operation,
                            const struct tca_coll_args *args, struct tca_coll **ret_coll)
{
    struct tca_coll *coll;
    int r = begin_reduction(session, COLL_REDUCE_SCATTER, in, out, 0, operation, args, &coll);

    if (!coll)
        return r;
    if (r >= 0)
        r = set_counts(coll, counts);
    return coll_make(coll, r < 0 ? r : check_memory(coll), args, ret_coll);
}
