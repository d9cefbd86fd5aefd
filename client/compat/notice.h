/*
 * Notices implement notifications keyed by (process, slot, tag).
 *
 * Each process keeps a table of places for every process of the job. A sender assigns one place to
 * each (channel, slot, tag) that it uses. After the data of a start, it puts a notice into the
 * place, with the number of notices so far, and then notifies (tca.h). Places are counters, so the
 * table does not overflow, however many notices with the same keys arrive. A place can be assigned
 * to another key when the receiver has taken all its notices. The receiver reports this, when many
 * places are in use, in a table at the sender.
 *
 * A notice can become visible before the data that precedes it, but a notification of tca.h cannot.
 * So the receiver trusts a table only if the number of notifications from the sender is at least
 * the sum of its notices.
 *
 * When a start fails, it is unknown whether its notices have arrived and been taken, so their
 * numbers are not used for other starts. If the program repeats the start, the notices get the same
 * numbers, and the receiver counts them once. If the program starts something else, the next notice
 * says how many earlier ones are in doubt. The receiver, which knows how many notifications have
 * arrived, decides.
 */
#pragma once

#include "client/compat/compat.h"

/* In the receiver's memory. `check` detects a notice that is partly written. */
struct notice {
    uint64_t key;   /* notice_key(); 0: this place and all after it were never used */
    uint64_t count; /* of notices, including those with earlier keys of this place */
    uint64_t check;
    uint64_t doubts; /* of these: notices of failed starts, which may not have arrived */
};

static inline uint64_t notice_check(uint64_t key, uint64_t count, uint64_t doubts)
{
    return (key * 0x9e3779b97f4a7c15 ^ count ^ doubts << 40) * 0xff51afd7ed558ccd + 1;
}

/* Slots are below 2^24. */
static inline uint64_t notice_key(int channel, int slot, int tag)
{
    return 1ull << 63 | (uint64_t)channel << 56 | (uint64_t)slot << 32 | (uint32_t)tag;
}
#define NOTICE_CHANNEL (3ull << 56)
enum { SLOT_MAX = (1 << 24) - 1 };

/* Allocates the tables and exchanges their handles. Collective. */
tcaresult notices_open(void);

/* ---- outbox.c: sending ---- */

/* A place at another process, reserved while a program uses it. */
struct place {
    uint32_t rank;
    uint32_t index;
};
tcaresult place_take(uint32_t rank, int channel, int slot, int tag, struct place *ret_place);
void place_give(struct place place);
/* The target of the place's notices. */
struct tca_handle place_target(struct place place, uint64_t *ret_offset_bytes);
/* A start of the chain with this id is about to send notices to the place. */
void place_begin(struct place place, uint64_t chain);
/* The next notice of the place. */
struct notice place_next(struct place place);
/* The last notice was not sent. */
void place_undo(struct place place);
/* The start of the chain that sent the last notice has failed; the notice may have arrived. */
void place_doubt(struct place place, uint64_t chain);

/* ---- inbox.c: receiving ---- */

tcaresult inbox_wait(uint32_t rank, int slot, int tag);
tcaresult inbox_test(uint32_t rank, int slot, int tag);

/* ---- notices.c: the tables ---- */
uint32_t notices_per_process(void);
struct notice *notices_from(uint32_t rank);
/* How many of our notices `rank` has taken, by place. */
const _Atomic uint64_t *taken_at(uint32_t rank);
struct tca_handle notices_at(uint32_t rank);
/* The offset in the tables of `rank` to which we report what we have taken. */
uint64_t taken_offset(uint32_t rank_of_receiver);

/* ---- self.c: notifications from this process to itself ---- */
struct self_key {
    int slot, tag;
};
tcaresult self_raise(struct self_key key);
bool self_take(struct self_key key);
