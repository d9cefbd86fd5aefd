#include "daemon/groups/gather.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_root(const struct gather *gather)
{
    return gather->place.parent == TREE_NONE;
}

/* ---- beginning and ending ---- */

static int compare_ranks(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* The child whose subtree has this position; -1: it is this node's own. */
static int branch_of(const struct gather *gather, uint32_t position)
{
    for (unsigned i = 0; i < gather->place.child_count; i++)
        if (gather->place.children[i].begin <= position && position < gather->place.children[i].end)
            return (int)i;
    return -1;
}

int gather_init(struct gather *gather, const struct gather_ops *ops, void *context,
                const struct roster *roster, uint32_t position)
{
    uint32_t filled[TREE_RADIX] = {0};
    bool ok = true;

    *gather = (struct gather){.ops = ops,
                              .context = context,
                              .size = roster->size,
                              .place = tree_find(roster->nodes, position)};
    const struct tree_range range = gather->place.range;
    gather->rank_count = roster->starts[range.end] - roster->starts[range.begin];
    gather->own_count = roster->starts[position + 1] - roster->starts[position];
    gather->ranks = calloc(gather->rank_count, sizeof(*gather->ranks));
    gather->given = calloc(gather->rank_count, sizeof(*gather->given));
    gather->is_own = calloc(gather->rank_count, sizeof(*gather->is_own));
    for (unsigned i = 0; i < gather->place.child_count; i++) {
        struct gather_branch *branch = &gather->branches[i];
        branch->range = gather->place.children[i];
        branch->count = roster->starts[branch->range.end] - roster->starts[branch->range.begin];
        branch->at = calloc(branch->count, sizeof(*branch->at));
        ok = ok && branch->at;
    }
    if (!ok || !gather->ranks || !gather->given || !gather->is_own) {
        gather_deinit(gather);
        return -ENOMEM;
    }
    memcpy(gather->ranks, roster->by_position + roster->starts[range.begin],
           gather->rank_count * sizeof(*gather->ranks));
    qsort(gather->ranks, gather->rank_count, sizeof(*gather->ranks), compare_ranks);
    for (uint32_t at = 0; at < gather->rank_count; at++) {
        const int i = branch_of(gather, roster->positions[gather->ranks[at]]);
        gather->is_own[at] = i < 0;
        if (i >= 0)
            gather->branches[i].at[filled[i]++] = at;
    }
    return 0;
}

void gather_deinit(struct gather *gather)
{
    for (unsigned i = 0; i < gather->place.child_count; i++)
        free(gather->branches[i].at);
    free(gather->ranks);
    free(gather->given);
    free(gather->is_own);
    free(gather->data);
    *gather = (struct gather){0};
}

/* ---- the state of a call ---- */

static void send_down(struct gather *gather, const struct gather_message *message)
{
    for (unsigned i = 0; i < gather->place.child_count; i++)
        gather->ops->send(gather->context, gather->branches[i].range.begin, message);
}

static void reset(struct gather *gather)
{
    if (gather->asks && is_root(gather))
        gather->ops->ask_timer(gather->context, false);
    free(gather->data);
    gather->data = NULL;
    gather->state = GATHER_IDLE;
    gather->faulty = gather->asks = false;
    gather->own_given = 0;
    memset(gather->given, 0, gather->rank_count * sizeof(*gather->given));
    for (unsigned i = 0; i < gather->place.child_count; i++)
        gather->branches[i].given = false;
}

/* The call has succeeded. */
static void finish(struct gather *gather, const uint8_t *data, uint64_t bytes, uint64_t sequence)
{
    const struct gather_message message = {.kind = GATHER_DOWN,
                                           .round = gather->round,
                                           .sequence = sequence,
                                           .bytes = bytes,
                                           .data = data,
                                           .data_bytes = (size_t)gather->size * bytes};
    uint8_t *own = gather->data; /* may be `data` */
    gather->data = NULL;
    send_down(gather, &message);
    reset(gather);
    gather->round++;
    gather->ops->done(gather->context, data, bytes);
    free(own);
}

static void end_failed(struct gather *gather, int error, bool final, const char *text)
{
    const struct gather_message message = {.kind = GATHER_FAILED,
                                           .round = gather->round,
                                           .error = error,
                                           .final = final,
                                           .text = text};
    send_down(gather, &message);
    reset(gather);
    gather->round++;
    if (final) {
        gather->broken = error;
        snprintf(gather->why, sizeof(gather->why), "%s", text);
    }
    gather->ops->failed(gather->context, error, text);
}

/* ---- who is missing ---- */

static bool is_given(const struct gather *gather, uint32_t at)
{
    return !gather->is_own[at] || gather->given[at];
}

static void add_run(struct gather *gather, struct gather_run run)
{
    struct gather_run *last = gather->run_count > 0 ? &gather->runs[gather->run_count - 1] : NULL;
    if (last && last->first + last->count == run.first)
        last->count += run.count;
    else if (gather->run_count < GATHER_RUNS_MAX)
        gather->runs[gather->run_count++] = run;
}

static int compare_runs(const void *a, const void *b)
{
    const struct gather_run *x = a, *y = b;
    return x->first < y->first ? -1 : x->first > y->first;
}

static void sort_runs(struct gather *gather)
{
    const uint32_t count = gather->run_count;
    qsort(gather->runs, count, sizeof(*gather->runs), compare_runs);
    gather->run_count = 0;
    for (uint32_t i = 0; i < count; i++)
        add_run(gather, gather->runs[i]);
}

static void write_missing(struct gather *gather, char *ret_text, size_t bytes)
{
    size_t length = 0;
    sort_runs(gather);
    length += (size_t)snprintf(
        ret_text, bytes, gather->run_count > 1 || gather->runs[0].count > 1 ? "ranks " : "rank ");
    for (uint32_t i = 0; i < gather->run_count && length < bytes - 32; i++) {
        const struct gather_run *run = &gather->runs[i];
        length += (size_t)snprintf(ret_text + length, bytes - length,
                                   run->count > 1 ? "%s%" PRIu32 "-%" PRIu32 : "%s%" PRIu32,
                                   i > 0 ? "," : "", run->first, run->first + run->count - 1);
        if (i + 1 < gather->run_count && length >= bytes - 32)
            snprintf(ret_text + length, bytes - length, "...");
    }
}

static void answered(struct gather *gather)
{
    if (!is_root(gather)) {
        const struct gather_message message = {.kind = GATHER_MISSING,
                                               .round = gather->round,
                                               .runs = gather->runs,
                                               .run_count = gather->run_count};
        gather->ops->send(gather->context, gather->place.parent, &message);
        return;
    }
    char missing[200] = "no rank", text[GATHER_TEXT_BYTES + 256];
    if (gather->run_count > 0)
        write_missing(gather, missing, sizeof(missing));
    snprintf(text, sizeof(text),
             "collective call %" PRIu64 ": %s of %" PRIu32 " did not take part in time%s%s",
             gather->sequence & GATHER_CALLS_MAX, missing, gather->size,
             gather->text[0] ? ": " : "", gather->text);
    end_failed(gather, gather->fault, false, text);
}

/* Finds out which ranks of the subtree are missing. */
static void ask(struct gather *gather)
{
    const struct gather_message message = {.kind = GATHER_WHO, .round = gather->round};

    gather->asks = true;
    gather->run_count = gather->unasked = 0;
    for (uint32_t i = 0; i < gather->rank_count; i++)
        if (!is_given(gather, i))
            add_run(gather, (struct gather_run){gather->ranks[i], 1});
    for (unsigned i = 0; i < gather->place.child_count; i++) {
        struct gather_branch *branch = &gather->branches[i];
        branch->answered = branch->given;
        if (branch->given)
            continue;
        gather->unasked++;
        gather->ops->send(gather->context, branch->range.begin, &message);
    }
    if (gather->unasked == 0)
        answered(gather);
    else if (is_root(gather))
        gather->ops->ask_timer(gather->context, true);
}

void gather_ask_expired(struct gather *gather)
{
    if (!gather->asks || !is_root(gather))
        return;
    for (unsigned i = 0; i < gather->place.child_count; i++) {
        const struct gather_branch *branch = &gather->branches[i];
        for (uint32_t k = 0; !branch->answered && k < branch->count; k++)
            add_run(gather, (struct gather_run){gather->ranks[branch->at[k]], 1});
    }
    answered(gather);
}

/* ---- faults ---- */

/* The call must fail, which only the root can make it do. */
static void fault(struct gather *gather, uint32_t rank, int error, bool final, const char *text)
{
    if (gather->broken)
        return;
    if (!is_root(gather)) {
        const struct gather_message message = {.kind = GATHER_FAULT,
                                               .round = gather->round,
                                               .rank = rank,
                                               .error = error,
                                               .final = final,
                                               .text = text};
        if (!gather->faulty || final)
            gather->ops->send(gather->context, gather->place.parent, &message);
        gather->faulty = true;
        return;
    }
    if (error != -ETIMEDOUT) {
        end_failed(gather, error, final, text);
    } else if (!gather->asks) {
        gather->fault = error;
        snprintf(gather->text, sizeof(gather->text), "%s", text);
        ask(gather);
    }
}

void gather_fail(struct gather *gather, uint32_t rank, int error, bool final, const char *text)
{
    fault(gather, rank, error, final, text);
}

void gather_orphan(struct gather *gather, int error, const char *text)
{
    if (!gather->broken)
        end_failed(gather, error, true, text);
}

/* ---- contributions ---- */

enum { NAME_BYTES = 64 };

static const char *name_call(char text[NAME_BYTES], uint64_t sequence, uint64_t bytes)
{
    const uint64_t number = sequence & GATHER_CALLS_MAX;
    if (sequence <= GATHER_CALLS_MAX)
        snprintf(text, NAME_BYTES, "%" PRIu64 " with %" PRIu64 " bytes", number, bytes);
    else
        snprintf(text, NAME_BYTES, "%" PRIu64 ", a split", number);
    return text;
}

/* Begins the call, or compares it with the one that has begun. */
static bool joins(struct gather *gather, uint32_t rank, uint64_t sequence, uint64_t bytes)
{
    char text[GATHER_TEXT_BYTES], mine[NAME_BYTES], other[NAME_BYTES];

    if (gather->state == GATHER_IDLE) {
        int r = gather->ops->begin(gather->context, bytes, text, sizeof(text));
        if (r < 0) {
            fault(gather, rank, r, false, text);
            return false;
        }
        gather->data = calloc(gather->rank_count, bytes ? bytes : 1);
        if (!gather->data) {
            fault(gather, rank, -ENOMEM, false, "out of memory for a gather");
            return false;
        }
        gather->state = GATHER_COLLECTING;
        gather->sequence = sequence;
        gather->bytes = bytes;
        gather->first = rank;
        return true;
    }
    if (gather->sequence == sequence && gather->bytes == bytes)
        return true;
    snprintf(text, sizeof(text),
             "rank %" PRIu32 " makes collective call %s, rank %" PRIu32
             " call %s: all ranks must make the same calls in the same order",
             gather->first, name_call(mine, gather->sequence, gather->bytes), rank,
             name_call(other, sequence, bytes));
    fault(gather, rank, -EPROTO, false, text);
    return false;
}

static void send_up(struct gather *gather)
{
    const struct gather_message message = {.kind = GATHER_UP,
                                           .round = gather->round,
                                           .sequence = gather->sequence,
                                           .rank = gather->first,
                                           .bytes = gather->bytes,
                                           .data = gather->data,
                                           .data_bytes =
                                               (size_t)gather->rank_count * gather->bytes};
    gather->ops->send(gather->context, gather->place.parent, &message);
}

void gather_again(struct gather *gather)
{
    const struct gather_message message = {.kind = GATHER_AGAIN, .round = gather->round};
    send_down(gather, &message);
}

static void move_on(struct gather *gather)
{
    bool complete = gather->own_given == gather->own_count;
    for (unsigned i = 0; i < gather->place.child_count; i++)
        complete = complete && gather->branches[i].given;
    if (!complete)
        return;
    gather->state = GATHER_SENT;
    if (is_root(gather)) {
        finish(gather, gather->data, gather->bytes, gather->sequence);
        return;
    }
    send_up(gather);
}

static uint32_t find_own(const struct gather *gather, uint32_t rank)
{
    uint32_t low = 0, high = gather->rank_count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (gather->ranks[middle] < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void gather_call(struct gather *gather, uint32_t rank, uint64_t sequence, const uint8_t *data,
                 uint64_t bytes)
{
    const uint32_t at = find_own(gather, rank);

    /* It takes part even if it does not fit: it gets the error of all. */
    const bool fits = joins(gather, rank, sequence, bytes);
    if (gather->state == GATHER_IDLE || gather->given[at])
        return; /* the root has failed it */
    gather->given[at] = true;
    gather->own_given++;
    if (!fits)
        return;
    if (bytes > 0)
        memcpy(gather->data + at * bytes, data, bytes);
    if (!gather->faulty)
        move_on(gather);
}

/* ---- messages ---- */

static bool take_up(struct gather *gather, struct gather_branch *branch,
                    const struct gather_message *message)
{
    if (branch->given && message->sequence == gather->sequence)
        return true; /* sent again */
    if (branch->given || message->rank >= gather->size ||
        (message->bytes > 0 && message->data_bytes / message->bytes != branch->count) ||
        message->data_bytes != branch->count * message->bytes)
        return false;
    if (!joins(gather, message->rank, message->sequence, message->bytes))
        return true;
    for (uint32_t i = 0; message->bytes > 0 && i < branch->count; i++)
        memcpy(gather->data + branch->at[i] * message->bytes, message->data + i * message->bytes,
               message->bytes);
    branch->given = true;
    if (!gather->faulty)
        move_on(gather);
    return true;
}

static bool take_missing(struct gather *gather, struct gather_branch *branch,
                         const struct gather_message *message)
{
    if (!gather->asks || branch->answered)
        return false;
    for (uint32_t i = 0; i < message->run_count; i++)
        add_run(gather, message->runs[i]);
    branch->answered = true;
    if (--gather->unasked == 0)
        answered(gather);
    return true;
}

static bool take_from_child(struct gather *gather, struct gather_branch *branch,
                            const struct gather_message *message)
{
    /* A final fault counts whenever it comes; of the others, those that have crossed the end of the
     * round do not. */
    if (message->kind == GATHER_FAULT && message->final && message->round <= gather->round)
        ;
    else if (message->round != gather->round)
        return message->round < gather->round;
    switch (message->kind) {
    case GATHER_UP:
        return take_up(gather, branch, message);
    case GATHER_FAULT:
        if (message->error >= 0 || message->rank >= gather->size)
            return false;
        fault(gather, message->rank, message->error, message->final, message->text);
        return true;
    case GATHER_MISSING:
        return take_missing(gather, branch, message);
    default:
        return false;
    }
}

static bool take_from_parent(struct gather *gather, const struct gather_message *message)
{
    if (message->round != gather->round)
        return false;
    switch (message->kind) {
    case GATHER_DOWN:
        if (gather->state != GATHER_SENT || message->sequence != gather->sequence ||
            message->bytes != gather->bytes ||
            message->data_bytes != (size_t)gather->size * message->bytes)
            return false;
        finish(gather, message->data, message->bytes, message->sequence);
        return true;
    case GATHER_FAILED:
        if (message->error >= 0)
            return false;
        end_failed(gather, message->error, message->final, message->text);
        return true;
    case GATHER_WHO:
        ask(gather);
        return true;
    case GATHER_AGAIN:
        if (gather->state == GATHER_SENT)
            send_up(gather);
        return true;
    default:
        return false;
    }
}

bool gather_receive(struct gather *gather, uint32_t position, const struct gather_message *message)
{
    if (gather->broken)
        return true; /* it was sent before its sender knew */
    if (position == gather->place.parent)
        return take_from_parent(gather, message);
    for (unsigned i = 0; i < gather->place.child_count; i++)
        if (gather->branches[i].range.begin == position)
            return take_from_child(gather, &gather->branches[i], message);
    return false;
}
