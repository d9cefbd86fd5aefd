#include "client/mpi/datatype.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/mpi/contents.h"
#include "client/mpi/convert.h"
#include "client/mpi/next.h"
#include "client/mpi/packed.h"
#include "client/mpi/value.h"

static struct datatype_counts done;

/* ---- handles ----
 *
 * The handles that the program has used, and all predefined ones that were met, by open addressing.
 * No inner datatype that only the MPI has told us of: it may vanish with the one around it. */

struct handle {
    uint64_t number; /* of the handle + 1; 0: none */
    struct value *value;
    bool predefined; /* not to be freed */
};

static struct {
    struct handle *slots;
    size_t count, mask; /* slots - 1 */
} handles;

enum { SLOTS_MIN = 256 };

static uint64_t number_of(MPI_Datatype type)
{
    return (uint64_t)(uintptr_t)type + 1;
}

static size_t slot_of(uint64_t number)
{
    return (size_t)((number * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & handles.mask;
}

static struct handle *find_handle(MPI_Datatype type)
{
    if (!handles.slots)
        return NULL;
    const uint64_t number = number_of(type);
    for (size_t i = slot_of(number);; i = (i + 1) & handles.mask) {
        if (handles.slots[i].number == number)
            return &handles.slots[i];
        if (handles.slots[i].number == 0)
            return NULL;
    }
}

static void place_handle(const struct handle *handle)
{
    size_t i = slot_of(handle->number);
    while (handles.slots[i].number != 0)
        i = (i + 1) & handles.mask;
    handles.slots[i] = *handle;
}

static int grow_handles(void)
{
    struct handle *old = handles.slots;
    const size_t old_slots = old ? handles.mask + 1 : 0;
    const size_t slots = old ? old_slots * 2 : SLOTS_MIN;
    struct handle *new = calloc(slots, sizeof(*new));
    if (!new)
        return -ENOMEM;
    handles.slots = new;
    handles.mask = slots - 1;
    for (size_t i = 0; i < old_slots; i++)
        if (old[i].number != 0)
            place_handle(&old[i]);
    free(old);
    return 0;
}

/* Takes a user of the value. Without memory, the handle is converted again at its next use. */
static void add_handle(MPI_Datatype type, struct value *value, bool predefined)
{
    if (2 * handles.count >= (handles.slots ? handles.mask + 1 : 0) && grow_handles() < 0)
        return;
    const struct handle handle = {number_of(type), value_keep(value), predefined};
    place_handle(&handle);
    handles.count++;
}

void datatype_freed(MPI_Datatype type)
{
    struct handle *gone = find_handle(type);
    if (!gone || gone->predefined)
        return;
    value_drop(gone->value);
    handles.count--;
    /* Those behind it move up as far as they may, so that none has a hole before it. */
    size_t hole = (size_t)(gone - handles.slots);
    for (size_t i = (hole + 1) & handles.mask; handles.slots[i].number != 0;
         i = (i + 1) & handles.mask) {
        size_t from = slot_of(handles.slots[i].number);
        if (((i - from) & handles.mask) < ((i - hole) & handles.mask))
            continue;
        handles.slots[hole] = handles.slots[i];
        hole = i;
    }
    handles.slots[hole] = (struct handle){0};
}

void datatype_deinit(void)
{
    for (size_t i = 0; handles.slots && i <= handles.mask; i++)
        if (handles.slots[i].number != 0)
            value_drop(handles.slots[i].value);
    free(handles.slots);
    handles.slots = NULL;
    handles.count = handles.mask = 0;
    value_forget();
}

struct datatype_counts datatype_counts(void)
{
    return done;
}

/* ---- values ---- */

/* How a value is made that is no combiner of the MPI. */
enum { MADE_NAMED = 1000, MADE_TIMES };

static int make_value(const struct value_args *args, struct value **ret_value)
{
    done.converted++;
    return value_new(args, ret_value);
}

/* The layout of a predefined datatype. -E2BIG: not known. */
static int named_layout(MPI_Datatype type, uint64_t size, struct tca_layout **ret_layout)
{
    MPI_Count lower, extent;
    if (next.Type_get_true_extent_x(type, &lower, &extent) != MPI_SUCCESS)
        return -EINVAL;
    struct tca_layout *block = NULL;
    int r = tca_layout_contiguous(size, &block);
    if (r == 0 && (size == 0 || (lower == 0 && (uint64_t)extent == size))) {
        *ret_layout = block;
        return 0;
    }
    tca_layout_free(block);
    if (r < 0 || type != MPI_SHORT_INT) /* the only pair with a gap between the two */
        return r < 0 ? r : -E2BIG;
    struct pair {
        short first;
        int second;
    };
    struct tca_layout *first = NULL, *second = NULL;
    r = tca_layout_contiguous(sizeof(short), &first);
    if (r == 0)
        r = tca_layout_contiguous(sizeof(int), &second);
    if (r == 0)
        r = tca_layout_struct(2, (const struct tca_layout *const[]){first, second},
                              (const uint64_t[]){1, 1},
                              (const int64_t[]){0, offsetof(struct pair, second)}, ret_layout);
    tca_layout_free(first);
    tca_layout_free(second);
    return r;
}

/* Makes the value of a datatype with this key. The layout becomes the value's; NULL: it has none.
 * Size and extent are those that the MPI says. */
static int add_value(MPI_Datatype type, struct value_args *args, struct value **ret_value)
{
    MPI_Count size, lower, extent;
    if (next.Type_size_x(type, &size) != MPI_SUCCESS ||
        next.Type_get_extent_x(type, &lower, &extent) != MPI_SUCCESS) {
        tca_layout_free(args->layout);
        return -EINVAL;
    }
    args->size_bytes = (uint64_t)size;
    args->extent_bytes = extent;
    if (args->layout && tca_layout_size(args->layout) != (uint64_t)size)
        args->layout = tca_layout_free(args->layout); /* we do not understand the MPI */
    int64_t our_lower = 0, our_extent = 0;
    if (args->layout)
        tca_layout_extent(args->layout, &our_lower, &our_extent);
    if (args->layout && (our_lower != lower || our_extent != extent)) {
        struct tca_layout *resized = NULL;
        tca_layout_resized(args->layout, lower, extent, &resized);
        tca_layout_free(args->layout);
        args->layout = resized;
    }
    return make_value(args, ret_value);
}

static int value_of_named(MPI_Datatype type, struct value **ret_value)
{
    const uint64_t key[] = {MADE_NAMED, number_of(type)};
    struct value_args args = {.key = key, .words = 2, .hash = value_hash(key, 2)};
    *ret_value = value_find(key, 2, args.hash);
    if (*ret_value)
        return 0;
    MPI_Count size;
    if (next.Type_size_x(type, &size) != MPI_SUCCESS || size < 0)
        return -EINVAL;
    int r = named_layout(type, (uint64_t)size, &args.layout);
    if (r < 0 && r != -E2BIG)
        return r;
    return add_value(type, &args, ret_value);
}

static int value_of(MPI_Datatype type, struct value **ret_value, bool *ret_predefined);

/* Converts what an inner datatype is, and gives the reference back. */
static int value_of_inner(MPI_Datatype type, struct value **ret_value)
{
    const struct handle *handle = find_handle(type);
    bool predefined = false;
    int r = 0;
    if (handle) {
        *ret_value = value_keep(handle->value);
        predefined = handle->predefined;
    } else {
        r = value_of(type, ret_value, &predefined);
        if (r == 0 && predefined)
            add_handle(type, *ret_value, true);
    }
    if (!predefined)
        next.Type_free(&type);
    return r;
}

/* Finds or makes the value of these contents. */
static int value_of_contents(MPI_Datatype type, const struct contents *contents,
                             struct value *const *inners, uint64_t *key, struct value **ret_value)
{
    size_t words = 0;
    key[words++] = (uint64_t)contents->combiner;
    key[words++] = contents->value_count;
    for (size_t i = 0; i < contents->inner_count; i++)
        key[words++] = inners[i]->id;
    memcpy(key + words, contents->values, contents->value_count * sizeof(*key));
    words += contents->value_count;
    struct value_args args = {.key = key, .words = words, .hash = value_hash(key, words)};
    *ret_value = value_find(key, words, args.hash);
    if (*ret_value) {
        done.found++;
        return 0;
    }
    int r = convert(contents, inners, &args.layout, &args.irregular);
    if (r == -ENOMEM)
        return r;
    return add_value(type, &args, ret_value);
}

static int value_of_derived(MPI_Datatype type, const struct contents *contents,
                            struct value **ret_value)
{
    enum { FEW_WORDS = CONTENTS_VALUES + CONTENTS_INNERS + 2 };
    struct value *few_inners[CONTENTS_INNERS], **inners = few_inners;
    uint64_t few_words[FEW_WORDS], *key = few_words;
    if (contents->inner_count > CONTENTS_INNERS)
        inners = malloc(contents->inner_count * sizeof(struct value *));
    if (contents->inner_count + contents->value_count + 2 > FEW_WORDS)
        key = malloc((contents->inner_count + contents->value_count + 2) * sizeof(*key));
    int r = inners && key ? 0 : -ENOMEM;
    size_t known = 0;
    for (size_t i = 0; r == 0 && i < contents->inner_count; i++) {
        r = value_of_inner(contents->inners[i], &inners[i]);
        known += r == 0;
    }
    if (r == 0)
        r = value_of_contents(type, contents, inners, key, ret_value);
    for (size_t i = 0; i < known; i++)
        value_drop(inners[i]);
    if (inners != few_inners)
        free(inners);
    if (key != few_words)
        free(key);
    return r;
}

/* The value of a datatype whose handle is not known, with one more user. */
static int value_of(MPI_Datatype type, struct value **ret_value, bool *ret_predefined)
{
    struct contents contents;
    int r = contents_init(&contents, type);
    if (r < 0)
        return r;
    *ret_predefined = false;
    switch (contents.combiner) {
    case MPI_COMBINER_NAMED:
    case MPI_COMBINER_F90_INTEGER:
    case MPI_COMBINER_F90_REAL:
    case MPI_COMBINER_F90_COMPLEX:
        *ret_predefined = true;
        r = value_of_named(type, ret_value);
        break;
    case MPI_COMBINER_DUP:
        r = value_of_inner(contents.inners[0], ret_value);
        break;
    default:
        r = value_of_derived(type, &contents, ret_value);
    }
    contents_deinit(&contents);
    return r;
}

/* The value of a datatype of the program, which its handle keeps. */
static int look_up(MPI_Datatype type, struct value **ret_value)
{
    const struct handle *handle = find_handle(type);
    if (handle) {
        *ret_value = handle->value;
        return 0;
    }
    if (type == MPI_DATATYPE_NULL)
        return -EINVAL;
    bool predefined;
    int r = value_of(type, ret_value, &predefined);
    if (r < 0)
        return r;
    add_handle(type, *ret_value, predefined);
    value_drop(*ret_value);
    return 0;
}

/* `count` copies of a value, with one more user. */
static int value_times(struct value *value, uint64_t count, struct value **ret_value)
{
    if (count == 1) {
        *ret_value = value_keep(value);
        return 0;
    }
    const uint64_t key[] = {MADE_TIMES, value->id, count};
    struct value_args args = {.key = key,
                              .words = 3,
                              .hash = value_hash(key, 3),
                              .irregular = value->irregular,
                              .size_bytes = count * value->size_bytes};
    *ret_value = value_find(key, 3, args.hash);
    if (*ret_value)
        return 0;
    if (value->layout && tca_layout_array(value->layout, count, &args.layout) == -ENOMEM)
        return -ENOMEM;
    return make_value(&args, ret_value);
}

int datatype_bytes(MPI_Datatype type, uint64_t *ret_bytes)
{
    struct value *value;
    int r = look_up(type, &value);
    if (r == 0)
        *ret_bytes = value->size_bytes;
    return r;
}

/* ---- uses ---- */

/* The address, which may be none of C's: absolute ones are counted from MPI_BOTTOM. */
static void *displaced(const void *address, int64_t bytes)
{
    return (void *)((uintptr_t)address + (uintptr_t)bytes);
}

int datatype_use_init(struct datatype_use *ret_use, const void *address, MPI_Count count,
                      MPI_Datatype type, enum datatype_direction direction)
{
    struct datatype_use use = {0};
    struct value *value;
    int r = look_up(type, &value);
    if (r < 0)
        return r;
    if (__builtin_mul_overflow(value->size_bytes, (uint64_t)count, &use.bytes) ||
        use.bytes > INT64_MAX)
        return -EOVERFLOW;
    use.buffer.bytes = use.bytes;
    if (use.bytes == 0 ||
        (value->contiguous && (count == 1 || value->extent_bytes == (int64_t)value->size_bytes))) {
        use.buffer.address = displaced(address, value->lower_bytes);
        *ret_use = use;
        return 0;
    }
    struct value *all;
    r = value_times(value, (uint64_t)count, &all);
    if (r < 0)
        return r;
    if (!all->layout) {
        value_drop(all);
        const struct packed_elements elements = {type, count, value->size_bytes,
                                                 value->extent_bytes, displaced(address, 0)};
        r = packed_new(&elements, direction == DATATYPE_RECEIVE, &use.packed);
        if (r < 0)
            return r;
        use.buffer.address = packed_memory(use.packed);
    } else {
        use.buffer.address = displaced(address, all->lower_bytes);
        use.buffer.layout = all->based;
        if (all->contiguous) /* the copies adjoin each other */
            value_drop(all);
        else
            use.value = all;
    }
    *ret_use = use;
    return 0;
}

int datatype_use_start_packed(struct datatype_use *use)
{
    return packed_fill(use->packed);
}

int datatype_use_finish_packed(struct datatype_use *use)
{
    return packed_empty(use->packed);
}

void datatype_use_release(struct datatype_use *use)
{
    value_drop(use->value);
    use->value = NULL;
    use->packed = packed_free(use->packed);
}
