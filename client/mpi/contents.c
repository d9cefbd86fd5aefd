#include "client/mpi/contents.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/mpi/next.h"

/* Both MPIs number the combiners that MPI-3 removed just before those that replaced them. */
enum {
    HVECTOR_INTEGER = MPI_COMBINER_HVECTOR - 1,
    HINDEXED_INTEGER = MPI_COMBINER_HINDEXED - 1,
    STRUCT_INTEGER = MPI_COMBINER_STRUCT - 1,
};

/* Since MPI 4, numbers come as int, MPI_Aint and MPI_Count. */
#ifndef OPEN_MPI
typedef MPI_Count length;
#else
typedef int length;
#endif

struct lengths {
    length ints, addresses, counts, inners;
};

static int read_envelope(MPI_Datatype type, struct lengths *lengths, int *ret_combiner)
{
    *lengths = (struct lengths){0};
#ifndef OPEN_MPI
    int r = next.Type_get_envelope_c(type, &lengths->ints, &lengths->addresses, &lengths->counts,
                                     &lengths->inners, ret_combiner);
#else
    int r = next.Type_get_envelope(type, &lengths->ints, &lengths->addresses, &lengths->inners,
                                   ret_combiner);
#endif
    return r == MPI_SUCCESS ? 0 : -EINVAL;
}

static int read_contents(MPI_Datatype type, const struct lengths *lengths, int *ints,
                         MPI_Aint *addresses, MPI_Count *counts, MPI_Datatype *inners)
{
#ifndef OPEN_MPI
    int r = next.Type_get_contents_c(type, lengths->ints, lengths->addresses, lengths->counts,
                                     lengths->inners, ints, addresses, counts, inners);
#else
    (void)counts;
    int r = next.Type_get_contents(type, lengths->ints, lengths->addresses, lengths->inners, ints,
                                   addresses, inners);
#endif
    return r == MPI_SUCCESS ? 0 : -EINVAL;
}

/* `count` counts that belong before the last `behind` of `values`. */
static void move_counts(int64_t *values, size_t value_count, size_t count, size_t behind)
{
    int64_t *first = values + value_count - count - behind;
    for (size_t i = 0; i < count; i++) {
        int64_t moved = values[value_count - count + i];
        memmove(first + i + 1, first + i, behind * sizeof(*first));
        first[i] = moved;
    }
}

/*
 * Constructors take their numbers in the order ints, addresses, counts, with two exceptions among
 * those with large counts: the sizes of a subarray stand before its order, those of a darray before
 * all but its first three numbers.
 */
static void put_in_order(struct contents *contents, const struct lengths *lengths)
{
    if (lengths->counts == 0)
        return;
    size_t behind = 0;
    if (contents->combiner == MPI_COMBINER_SUBARRAY)
        behind = 1;
    else if (contents->combiner == MPI_COMBINER_DARRAY)
        behind = (size_t)lengths->ints - 3;
    if (behind > 0)
        move_counts(contents->values, contents->value_count, (size_t)lengths->counts, behind);
}

static int of_today(int combiner)
{
    if (combiner == HVECTOR_INTEGER || combiner == HINDEXED_INTEGER || combiner == STRUCT_INTEGER)
        return combiner + 1;
    return combiner;
}

static int allocate(struct contents *contents)
{
    contents->values = contents->few_values;
    contents->inners = contents->few_inners;
    if (contents->value_count > CONTENTS_VALUES)
        contents->values = malloc(contents->value_count * sizeof(*contents->values));
    if (contents->inner_count > CONTENTS_INNERS)
        contents->inners = malloc(contents->inner_count * sizeof(MPI_Datatype));
    return contents->values && contents->inners ? 0 : -ENOMEM;
}

void contents_deinit(struct contents *contents)
{
    if (contents->values != contents->few_values)
        free(contents->values);
    if (contents->inners != contents->few_inners)
        free(contents->inners);
}

/* Reads the numbers as they are, then widens them into values[] from the end of it backwards:
 * addresses and counts have 64 bits, and ints, which come first, are read into its beginning. */
static int read_all(MPI_Datatype type, const struct lengths *lengths, struct contents *contents)
{
    int64_t *values = contents->values;
    int *ints = (int *)values;
    MPI_Aint *addresses = (MPI_Aint *)values + lengths->ints;
    MPI_Count *counts = (MPI_Count *)values + lengths->ints + lengths->addresses;
    int r = read_contents(type, lengths, ints, addresses, counts, contents->inners);
    if (r < 0)
        return r;
    for (size_t i = (size_t)lengths->ints; i-- > 0;) {
        int narrow;
        memcpy(&narrow, ints + i, sizeof(narrow));
        values[i] = narrow;
    }
    return 0;
}

int contents_init(struct contents *contents, MPI_Datatype type)
{
    struct lengths lengths;
    int combiner = MPI_COMBINER_NAMED;
    int r = read_envelope(type, &lengths, &combiner);
    if (r < 0)
        return r;
    contents->combiner = of_today(combiner);
    contents->value_count = (size_t)(lengths.ints + lengths.addresses + lengths.counts);
    contents->inner_count = (size_t)lengths.inners;
    r = allocate(contents);
    if (r == 0 && combiner != MPI_COMBINER_NAMED)
        r = read_all(type, &lengths, contents);
    if (r < 0) {
        contents_deinit(contents);
        return r;
    }
    put_in_order(contents, &lengths);
    return 0;
}
