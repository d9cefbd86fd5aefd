#include <tca-group.h>

#include "client/fortran/array.h"
#include "client/fortran/result.h"

void tca_f_open(struct tca **session, const CFI_cdesc_t *group, const int *rank, const int *size,
                const CFI_cdesc_t *name, const int64_t *timeout_ns, int *ierror)
{
    char texts[2][256];
    const struct tca_open_args args = {.group = fortran_string(group, texts[0]),
                                       .name = fortran_string(name, texts[1]),
                                       .rank = rank ? (uint32_t)*rank : 0,
                                       .size = size ? (uint32_t)*size : 0,
                                       .timeout_ns = fortran_timeout(timeout_ns, 0)};
    fortran_done(fortran_from(tca_open(&args, session)), ierror);
}

void tca_f_close(struct tca **session)
{
    *session = tca_close(*session);
}

int tca_f_rank(struct tca *const *session, struct tca_group *const *group)
{
    return (int)(group ? tca_group_rank(*group) : tca_rank(*session));
}

int tca_f_size(struct tca *const *session, struct tca_group *const *group)
{
    return (int)(group ? tca_group_size(*group) : tca_size(*session));
}

int tca_f_node(struct tca *const *session, const int *rank)
{
    return rank ? tca_node_of(*session, (uint32_t)*rank) : (int)tca_node(*session);
}

void tca_f_barrier(struct tca *const *session, struct tca_group *const *group,
                   const int64_t *timeout_ns, int *ierror)
{
    const int64_t limit_ns = fortran_timeout(timeout_ns, TCA_DEFAULT);
    fortran_done(
        fortran_from(group ? tca_group_barrier(*group, limit_ns) : tca_barrier(*session, limit_ns)),
        ierror);
}

void tca_f_allgather(struct tca *const *session, const CFI_cdesc_t *value, CFI_cdesc_t *all,
                     struct tca_group *const *group, const int64_t *timeout_ns, int *ierror)
{
    const uint64_t bytes = (uint64_t)array_count_of(value) * value->elem_len;
    const uint64_t size = (uint64_t)tca_f_size(session, group);
    int result = array_contiguous(value);
    if (result == 0)
        result = array_contiguous(all);
    if (result == 0 && (uint64_t)array_count_of(all) * all->elem_len != size * bytes)
        result = fortran_refuse("tca_allgather: `all` must have the size of `value` for each rank");
    if (result == 0) {
        const int64_t limit_ns = fortran_timeout(timeout_ns, TCA_DEFAULT);
        result = fortran_from(
            group ? tca_group_allgather(*group, value->base_addr, bytes, all->base_addr, limit_ns)
                  : tca_allgather(*session, value->base_addr, bytes, all->base_addr, limit_ns));
    }
    fortran_done(result, ierror);
}

void tca_f_group_split(struct tca *const *session, int colour, int key, struct tca_group **group,
                       struct tca_group *const *parent, const int64_t *timeout_ns, int *ierror)
{
    fortran_done(fortran_from(tca_group_split(*session, parent ? *parent : NULL,
                                              colour < 0 ? TCA_GROUP_NONE : (uint32_t)colour, key,
                                              fortran_timeout(timeout_ns, TCA_DEFAULT), group)),
                 ierror);
}

void tca_f_group_free(struct tca_group **group)
{
    *group = tca_group_free(*group);
}
