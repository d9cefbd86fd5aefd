/* Compiles a chain of descriptors into a plan: the data of each descriptor, followed by its notice.
 * Device memory is moved before the plan starts. */
#include "client/compat/program.h"

#include <errno.h>
#include <stdlib.h>

#include "client/compat/device/moves.h"
#include "client/compat/joint.h"

/* ---- compiling ---- */

/* Adds the data of descriptor `first` and of those after it that can be merged; ret_last: the last
 * of them. */
static tcaresult add_data(struct program *program, const struct transfers *chain, size_t first,
                          size_t *ret_last)
{
    const struct transfer *transfers = chain->list + first;
    struct joint joint;
    if (moves_concern(transfers))
        return moves_add(program, chain, first);
    tcaresult result = joint_begin(transfers, &joint);
    if (result != TCA_SUCCESS)
        return result;
    while (first + joint.count < chain->count && joint_extend(&joint, transfers + joint.count))
        ;
    if ((result = joint_put(&joint, transfers, program->plan)) != TCA_SUCCESS)
        return result;
    program->put_count++;
    program_use(program, joint.source);
    *ret_last = first + joint.count - 1;
    return TCA_SUCCESS;
}

static tcaresult add_notice(struct program *program, const struct transfer *transfer)
{
    struct sending *sending = &program->sendings[program->sending_count];
    uint32_t rank = transfer->target.rank;
    tcaresult result =
        place_take(rank, program->channel, transfer->slot, transfer->tag, &sending->place);
    if (result != TCA_SUCCESS)
        return result;
    sending->notice = &program->notices[program->sending_count++];
    struct tca_put put = {.source_address = sending->notice, .bytes = sizeof(struct notice)};
    put.target = place_target(sending->place, &put.target_offset_bytes);
    int r = tca_plan_put(program->plan, &put);
    if (r == 0)
        r = tca_plan_notify(program->plan, rank, NOTIFY_NOTICE);
    return r < 0 ? compat_fail_errno(r, "a notification") : TCA_SUCCESS;
}

static void add_self(struct program *program, const struct transfer *transfer)
{
    program->selves[program->self_count++] = (struct self_key){transfer->slot, transfer->tag};
}

static tcaresult add_notifications(struct program *program, const struct transfer *transfer)
{
    if (transfer->flags & tcaDMANotifySelf)
        add_self(program, transfer);
    if (!(transfer->flags & tcaDMANotify))
        return TCA_SUCCESS;
    if (transfer->target.rank != compat.rank)
        return add_notice(program, transfer);
    add_self(program, transfer);
    return TCA_SUCCESS;
}

static tcaresult add_all(struct program *program, const struct transfers *chain)
{
    tcaresult result = TCA_SUCCESS;
    for (size_t i = 0, next = 0; i < chain->count && result == TCA_SUCCESS; i = next) {
        size_t last = i;
        if (chain->list[i].width_bytes > 0)
            result = add_data(program, chain, i, &last);
        for (next = i; next <= last && result == TCA_SUCCESS; next++)
            result = add_notifications(program, &chain->list[next]);
    }
    return result;
}

static int compare_notified(const void *a, const void *b)
{
    const struct notified *one = a, *other = b;
    if (one->rank != other->rank)
        return one->rank < other->rank ? -1 : 1;
    if (one->slot != other->slot)
        return one->slot < other->slot ? -1 : 1;
    return (one->tag > other->tag) - (one->tag < other->tag);
}

static void list_notified(struct program *program)
{
    struct notified *list = program->notified;
    size_t count = 0, kept = 0;
    for (size_t i = 0; i < program->chain.count; i++) {
        const struct transfer *transfer = &program->chain.list[i];
        if (transfer->flags & tcaDMANotify)
            list[count++] = (struct notified){transfer->target.rank, transfer->slot, transfer->tag};
        if (transfer->flags & tcaDMANotifySelf)
            list[count++] = (struct notified){compat.rank, transfer->slot, transfer->tag};
    }
    qsort(list, count, sizeof(*list), compare_notified);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || compare_notified(&list[kept - 1], &list[i]) != 0)
            list[kept++] = list[i];
    program->notified_count = kept;
}

/* A hash of the chain (FNV-1a), never 0. */
static uint64_t identify(const struct transfers *chain)
{
    const unsigned char *bytes = (const unsigned char *)chain->list;
    uint64_t hash = 0xcbf29ce484222325;
    for (size_t i = 0; i < chain->count * sizeof(chain->list[0]); i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3;
    return hash ? hash : 1;
}

static bool copy(const struct transfers *from, struct transfers *ret_to)
{
    struct transfer *list = calloc(from->count + 1, sizeof(*list));
    if (!list)
        return false;
    for (size_t i = 0; i < from->count; i++)
        list[i] = from->list[i];
    *ret_to = (struct transfers){.list = list, .count = from->count, .room = from->count};
    return true;
}

/* Allocates what the chain can need at most. */
static tcaresult reserve(struct program *program, const struct transfers *chain)
{
    program->sendings = calloc(chain->count + 1, sizeof(*program->sendings));
    program->selves = calloc(2 * chain->count + 1, sizeof(*program->selves));
    program->notified = calloc(2 * chain->count + 1, sizeof(*program->notified));
    program->sources = calloc(2 * chain->count + 1, sizeof(struct tca_region *));
    size_t notices = 0, moves = 0;
    for (size_t i = 0; i < chain->count; i++) {
        notices += chain->list[i].flags & tcaDMANotify ? 1 : 0;
        moves += moves_concern(&chain->list[i]);
    }
    program->moves = moves_new(moves);
    if (!program->sendings || !program->selves || !program->notified || !program->sources ||
        !program->moves || !copy(chain, &program->chain))
        return compat_fail(TCA_ERROR_OUT_OF_MEMORY, "out of memory for a chain of %zu descriptors",
                           chain->count);
    program->identity = identify(&program->chain);
    list_notified(program);
    void *memory = NULL;
    int r = notices ? tca_alloc(compat.session, notices * sizeof(struct notice), &memory) : 0;
    program->notices = memory;
    return r < 0 ? compat_fail_errno(r, "memory for notifications") : TCA_SUCCESS;
}

/* Distinguishes a freed region from the end of its process, as a wait does. */
static tcaresult commit_failed(const struct transfers *chain, int error)
{
    tcaresult result = compat_fail_errno(error, "tcaDescSet");
    for (size_t i = 0; error == -ESTALE && i < chain->count; i++) {
        const uint32_t rank = chain->list[i].target.rank;
        if (tca_notified(compat.session, rank, NOTIFY_NEVER) < 0)
            return compat_fail(TCA_ERROR_PEER_LOST,
                               "tcaDescSet: process %u, to which the chain puts data, has ended, "
                               "or its node is unreachable",
                               rank);
    }
    return result;
}

/* Prefers the boards, for which the program was written. Uses the daemon's seat, because a DMA
 * engine works on while the processor is elsewhere, in an MPI barrier, say. */
static tcaresult compile(struct program *program, const struct transfers *chain, int *ret_error)
{
    const struct tca_plan_args args = {.name = "tca-api",
                                       .rail = TCA_RAIL_PEACH2,
                                       .seat = TCA_SEAT_DAEMON,
                                       .channel = (uint32_t)program->channel,
                                       .flags = TCA_PLAN_LANDED | TCA_PLAN_PREFER};
    tcaresult result = reserve(program, chain);
    int r = result == TCA_SUCCESS ? tca_plan_new(compat.session, &args, &program->plan) : 0;
    if (r < 0)
        result = compat_fail_errno(r, "a plan");
    if (result == TCA_SUCCESS)
        result = add_all(program, chain);
    if (result != TCA_SUCCESS)
        return result;
    if (program->put_count + program->sending_count == 0) {
        program->plan = tca_plan_free(program->plan);
        return TCA_SUCCESS;
    }
    *ret_error = tca_plan_commit(program->plan, TCA_DEFAULT);
    return *ret_error < 0 ? commit_failed(chain, *ret_error) : TCA_SUCCESS;
}

static tcaresult make(const struct transfers *chain, int channel, struct program **ret_program,
                      int *ret_error)
{
    struct program *program = calloc(1, sizeof(*program));
    if (!program)
        return compat_fail(TCA_ERROR_OUT_OF_MEMORY, "out of memory for a chain");
    *program = (struct program){.users = 1, .channel = channel};
    tcaresult result = compile(program, chain, ret_error);
    if (result != TCA_SUCCESS) {
        program_free(program);
        return result;
    }
    programs_add(program);
    *ret_program = program;
    return TCA_SUCCESS;
}

tcaresult program_get(const struct transfers *chain, int channel, struct program **ret_program)
{
    int error = 0;
    struct program *same = programs_find(chain, channel);
    if (same) {
        *ret_program = program_ref(same);
        return TCA_SUCCESS;
    }
    tcaresult result = make(chain, channel, ret_program, &error);
    if (error == -EDQUOT && programs_trim())
        result = make(chain, channel, ret_program, &error);
    return result;
}

/* ---- running ---- */

/* Calls place_begin() once for each notice; for a place with several, only the first call has an
 * effect. */
static void number_notices(const struct program *program)
{
    for (size_t i = 0; i < program->sending_count; i++)
        place_begin(program->sendings[i].place, program->identity);
    for (size_t i = 0; i < program->sending_count; i++)
        *program->sendings[i].notice = place_next(program->sendings[i].place);
}

static void note_failure(struct program *program)
{
    program->spoiled = true;
    for (size_t i = 0; i < program->sending_count; i++)
        place_doubt(program->sendings[i].place, program->identity);
}

tcaresult program_start(struct program *program)
{
    if (program->dropped)
        return compat_fail(TCA_ERROR_INVALID_VALUE,
                           "the chain in channel %d reads memory that was freed: load another",
                           program->channel);
    tcaresult result = moves_run(program);
    program->spoiled |= result != TCA_SUCCESS;
    if (result != TCA_SUCCESS || !program->plan)
        return result;
    number_notices(program);
    int r = tca_start(program->plan);
    if (r == 0)
        return TCA_SUCCESS;
    program->spoiled = true;
    for (size_t i = 0; i < program->sending_count; i++)
        place_undo(program->sendings[i].place);
    return compat_fail_errno(r, "tcaStartDMADesc");
}

void program_finish(struct program *program)
{
    if (program->plan)
        tca_wait(program->plan, TCA_FOREVER);
}

bool program_notifies_like(const struct program *one, const struct program *other)
{
    size_t i = 0, k = 0;
    while (i < one->notified_count && k < other->notified_count) {
        int order = compare_notified(&one->notified[i], &other->notified[k]);
        if (order == 0)
            return true;
        if (order < 0)
            i++;
        else
            k++;
    }
    return false;
}

int program_wait(struct program *program, int64_t timeout_ns)
{
    int r = program->plan ? tca_wait(program->plan, timeout_ns) : 0;
    if (r == -ETIMEDOUT) { /* still running, ended meanwhile, or failed with this error */
        r = tca_test(program->plan);
        if (r == 0)
            return 1;
        r = r > 0 ? 0 : r;
    }
    if (r < 0)
        note_failure(program);
    for (size_t i = 0; i < program->self_count && r == 0; i++)
        if (self_raise(program->selves[i]) != TCA_SUCCESS)
            r = -ENOMEM;
    return r;
}

bool program_notifies_self(const struct program *program, struct self_key key)
{
    for (size_t i = 0; i < program->self_count; i++)
        if (program->selves[i].slot == key.slot && program->selves[i].tag == key.tag)
            return true;
    return false;
}
