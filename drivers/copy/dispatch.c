/* Selects the set of kernels for this processor. */
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "drivers/copy/kernels.h"

#define DECLARE(variant)                                                                           \
    copy_nest_kernel *copy_nest_choose_##variant(const struct copy_nest *nest);                    \
    copy_nest_kernel *copy_nest_choose_transpose_##variant(const struct copy_nest *nest);          \
    copy_nest_kernel *copy_nest_choose_stream_##variant(const struct copy_nest *nest);             \
    copy_list_kernel *copy_list_choose_##variant(const struct copy_list *list);                    \
    copy_list_kernel *copy_list_choose_stream_##variant(const struct copy_list *list);             \
    void copy_stream_##variant(uint8_t *target, const uint8_t *source, uint64_t bytes);            \
    void copy_stream_end_##variant(void);                                                          \
    combine_kernel *copy_combine_choose_##variant(enum element_operator number,                    \
                                                  enum element_type type);
#define SET(variant)                                                                               \
    {                                                                                              \
        .name = #variant, .nest = copy_nest_choose_##variant,                                      \
        .nest_transpose = copy_nest_choose_transpose_##variant,                                    \
        .nest_stream = copy_nest_choose_stream_##variant, .list = copy_list_choose_##variant,      \
        .list_stream = copy_list_choose_stream_##variant, .stream = copy_stream_##variant,         \
        .stream_end = copy_stream_end_##variant, .combine = copy_combine_choose_##variant          \
    }

DECLARE(plain)
#ifdef COPY_HAVE_AVX2
DECLARE(avx2)
#endif

/* Best first. */
static const struct copy_kernels sets[] = {
#ifdef COPY_HAVE_AVX2
    SET(avx2),
#endif
    SET(plain),
};
enum { SETS = sizeof(sets) / sizeof(*sets) };

static bool runs_here(const char *name)
{
#ifdef COPY_HAVE_AVX2
    if (strcmp(name, "avx2") == 0)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2");
#endif
    return strcmp(name, "plain") == 0;
}

static _Atomic(const struct copy_kernels *) chosen;

/* Concurrent callers choose the same set. */
const struct copy_kernels *copy_kernels(void)
{
    const struct copy_kernels *set = atomic_load_explicit(&chosen, memory_order_relaxed);
    for (unsigned i = 0; !set && i < SETS; i++)
        if (runs_here(sets[i].name))
            set = &sets[i];
    atomic_store_explicit(&chosen, set, memory_order_relaxed);
    return set;
}

combine_kernel *combine_choose(enum element_operator number, enum element_type type)
{
    return copy_kernels()->combine(number, type);
}

const char *copy_kernels_name(unsigned index)
{
    return index < SETS ? sets[index].name : NULL;
}

bool copy_kernels_use(const char *name)
{
    for (unsigned i = 0; i < SETS; i++) {
        if (strcmp(sets[i].name, name) == 0 && runs_here(name)) {
            atomic_store_explicit(&chosen, &sets[i], memory_order_relaxed);
            return true;
        }
    }
    return false;
}
