#include <tca-coll.h>
#include <tca-group.h>

#include "client/fortran/array.h"
#include "client/fortran/result.h"

static uint64_t size_of(struct tca *const *session, struct tca_group *const *group)
{
    return group ? tca_group_size(*group) : tca_size(*session);
}

static struct tca_coll_args coll_args(struct tca_group *const *group)
{
    return (struct tca_coll_args){.plan.group = group ? *group : NULL};
}

void tca_f_coll_barrier(struct tca *const *session, struct tca_coll **coll,
                        struct tca_group *const *group, int *ierror)
{
    const struct tca_coll_args args = coll_args(group);
    fortran_done(fortran_from(tca_coll_barrier(*session, &args, coll)), ierror);
}

void tca_f_coll_broadcast(struct tca *const *session, const CFI_cdesc_t *array, int root,
                          struct tca_coll **coll, struct tca_group *const *group, int *ierror)
{
    const struct tca_coll_args args = coll_args(group);
    int result = array_contiguous(array);
    if (result == 0)
        result = fortran_from(tca_coll_broadcast(*session, array->base_addr, array_bytes_of(array),
                                                 (uint32_t)root, &args, coll));
    fortran_done(result, ierror);
}

/* Contiguous, and `out` has `ratio` times the bytes of `in`. */
static int fit(const CFI_cdesc_t *in, const CFI_cdesc_t *out, uint64_t ratio)
{
    int result = array_contiguous(in);
    if (result == 0)
        result = array_contiguous(out);
    if (result == 0 && array_bytes_of(in) * ratio != array_bytes_of(out))
        result = fortran_refuse("the sizes of `in` and `out` do not fit together");
    return result;
}

void tca_f_coll_allgather(struct tca *const *session, const CFI_cdesc_t *in, const CFI_cdesc_t *out,
                          struct tca_coll **coll, struct tca_group *const *group, int *ierror)
{
    const struct tca_coll_args args = coll_args(group);
    int result = fit(in, out, (uint64_t)size_of(session, group));
    if (result == 0)
        result = fortran_from(tca_coll_allgather(*session, in->base_addr, out->base_addr,
                                                 array_bytes_of(in), &args, coll));
    fortran_done(result, ierror);
}

void tca_f_coll_alltoall(struct tca *const *session, const CFI_cdesc_t *in, const CFI_cdesc_t *out,
                         struct tca_coll **coll, struct tca_group *const *group, int *ierror)
{
    const struct tca_coll_args args = coll_args(group);
    const uint64_t size = (uint64_t)size_of(session, group);
    int result = fit(in, out, 1);
    if (result == 0 && array_bytes_of(in) % size)
        result = fortran_refuse("tca_coll_alltoall: the ranks cannot share the array equally");
    if (result == 0)
        result = fortran_from(tca_coll_alltoall(*session, in->base_addr, out->base_addr,
                                                array_bytes_of(in) / size, &args, coll));
    fortran_done(result, ierror);
}

static int operator_of(const CFI_cdesc_t *in, const CFI_cdesc_t *out, int op,
                       struct tca_coll_operator *ret_operator)
{
    *ret_operator =
        (struct tca_coll_operator){.combine = (enum tca_combine)op, .type = array_type_of(out)};
    const int result = fit(in, out, 1);
    return result < 0 ? result
           : array_type_of(in) != array_type_of(out) || array_type_of(in) == TCA_TYPE_BYTE
               ? fortran_refuse("a reduction takes integers, reals or complex numbers, of one type")
               : 0;
}

void tca_f_coll_allreduce(struct tca *const *session, const CFI_cdesc_t *in, const CFI_cdesc_t *out,
                          int op, struct tca_coll **coll, struct tca_group *const *group,
                          int *ierror)
{
    const struct tca_coll_args args = coll_args(group);
    struct tca_coll_operator operation;
    int result = operator_of(in, out, op, &operation);
    if (result == 0)
        result = fortran_from(tca_coll_allreduce(*session, in->base_addr, out->base_addr,
                                                 (uint64_t)array_count_of(out), &operation, &args,
                                                 coll));
    fortran_done(result, ierror);
}

void tca_f_coll_reduce(struct tca *const *session, const CFI_cdesc_t *in, const CFI_cdesc_t *out,
                       int op, int root, struct tca_coll **coll, struct tca_group *const *group,
                       int *ierror)
{
    const struct tca_coll_args args = coll_args(group);
    struct tca_coll_operator operation;
    int result = operator_of(in, out, op, &operation);
    if (result == 0)
        result = fortran_from(tca_coll_reduce(*session, in->base_addr, out->base_addr,
                                              (uint64_t)array_count_of(out), &operation,
                                              (uint32_t)root, &args, coll));
    fortran_done(result, ierror);
}

void tca_f_coll_start(struct tca_coll *const *coll, int *ierror)
{
    fortran_done(fortran_from(tca_coll_start(*coll)), ierror);
}

int tca_f_coll_test(struct tca_coll *const *coll, int *ierror)
{
    return fortran_tested(fortran_from(tca_coll_test(*coll)), ierror);
}

void tca_f_coll_wait(struct tca_coll *const *coll, const int64_t *timeout_ns, int *ierror)
{
    fortran_done(fortran_from(tca_coll_wait(*coll, fortran_timeout(timeout_ns, TCA_FOREVER))),
                 ierror);
}

void tca_f_coll_free(struct tca_coll **coll)
{
    *coll = tca_coll_free(*coll);
}
