/*
 * The copy modes of a put whose copying the receiver can share: which are worth a trial, and a
 * guess for the starts before. The expensive operation is a store to a line that another core has
 * last read: that core's copy must be invalidated first, which takes longer the farther apart the
 * two cores are. The guess:
 *
 *   RING  in nearly all cases: the receiver hands the slots' lines back (lane.c), and each process
 *         touches only its own memory, however scattered. The cost per line hardly depends on the
 *         distance.
 *   HALF  near, for data that leaves the inner caches between uses, in blocks of a line or more;
 *         and for transposes at any distance, which in pieces would fetch each line many times.
 *         Far, the sender must get back each line of its source that the receiver has read.
 *   PUSH  with streaming stores far, for large puts of large blocks: it needs no help.
 *
 * The guess is often wrong: it depends on caches that differ from machine to machine. The distance
 * is measured while plans run (lane_probe()), because processes migrate.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/lane.h"
#include "proto/layout.h"

/* `near` is the guess up to a distance of up_to_ns, `far` beyond it. They may be equal. */
struct copy_choice {
    enum copy_method near, far;
    uint32_t up_to_ns;
};
struct copy_choice copy_choose(const struct layout *target, const struct layout *source);

/* Whether a push uses streaming stores, unless its copy mode says otherwise: for large puts in
 * large blocks only, because each block may open a memory page. */
bool copy_streams(const struct layout *target, const struct layout *source);

/* Whether sharing can pay off at any distance. */
bool copy_share_pays(const struct layout *target, const struct layout *source);

/* How one start copies. Modes differ in time only: every start may use another one. */
struct copy_mode {
    enum copy_method method; /* COPY_NONE: chosen at each start, by the distance */
    bool stream;             /* PUSH, HALF: the sender's stores bypass the caches */
    uint32_t piece_bytes;    /* RING: staged per slot, at most LANE_SLOT_BYTES */
};
/* The one for a method that was asked for. */
struct copy_mode copy_mode_of(enum copy_method method, const struct layout *target,
                              const struct layout *source);
bool copy_mode_equal(const struct copy_mode *a, const struct copy_mode *b);

/* The modes worth a trial for these layouts, in no order; returns how many. `mapped`: the receiver
 * has the source mapped, so it can copy from there. */
enum { COPY_MODES_MAX = 7 };
unsigned copy_mode_candidates(const struct layout *target, const struct layout *source, bool mapped,
                              struct copy_mode ret_modes[COPY_MODES_MAX]);
