/* Reuse of bus addresses: what an owner asks (recall.c), and what a sender does (recalled.c). */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "drivers/peach2/registers.h"
#include "drivers/recall.h"

struct peach2;
struct put;

/* Of the owner: the one range that is recalled. Node sets have a bit per node. */
struct reuse {
    struct span *span; /* NULL: none */
    struct recall_key key;
    struct recall_holder nodes[PEACH2_NODES];
    atomic_bool wanted; /* there were too few free addresses */
    uint32_t admitted;  /* nodes whose packets the board accepts */
};

/* Of a sender: what each node has recalled last, for landings whose description is on the way. */
enum { RECALLED_KEPT = 64 };
struct recalled {
    struct recalled_range {
        uint64_t number, first, end;
    } kept[RECALLED_KEPT];
    uint32_t next;
    uint64_t forgotten; /* number of the last that is no longer kept */
    struct put *puts;   /* prepared, to that node */
    bool confirm;       /* RECALLED is to be sent, with this number: */
    uint64_t number;
};

/* Whether `number` is earlier, of the same instance. */
static inline bool recall_is_before(uint64_t number, uint64_t other)
{
    enum { COUNT_BITS = 36 };
    return number >> COUNT_BITS == other >> COUNT_BITS && number < other;
}

/* ---- recall.c ---- */
int peach2_recall_init(struct peach2 *peach2);
void peach2_recall_deinit(struct peach2 *peach2);
/* Whether there is something to recall, or a recall is in progress. */
bool peach2_recall_due(struct peach2 *peach2);
/* Returns the number of steps. */
unsigned peach2_recall_run(struct peach2 *peach2, uint64_t now_ns);
void peach2_recall_confirmed(struct peach2 *peach2, unsigned node, uint64_t number);
/* The node has synced. False: it must not be answered, because it has to confirm first. */
bool peach2_recall_admit(struct peach2 *peach2, unsigned node);
/* Stores the admitted nodes in the board. */
void peach2_recall_tell_board(struct peach2 *peach2);

/* ---- recalled.c ---- */
void peach2_recalled_add(struct peach2 *peach2, struct put *put);
void peach2_recalled_remove(struct put *put);
/* Whether a put's target was recalled while its description was on the way. */
bool peach2_recalled_already(const struct peach2 *peach2, const struct put *put);
/* A node recalls a range. */
void peach2_recalled_take(struct peach2 *peach2, unsigned node, uint64_t number, uint64_t range);
/* A node has ceased to accept packets, and accepts none until this is confirmed. */
void peach2_recalled_revoke(struct peach2 *peach2, unsigned node, uint64_t number);
/* Confirms, if there is something to confirm and no more packets can land there. Returns the number
 * of messages. */
unsigned peach2_recalled_send(struct peach2 *peach2, unsigned node);
