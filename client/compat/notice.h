/*
 * Notices: what notifications keyed by (process, slot, tag) are made of.
 *
 * Each process keeps, for every process of the job, a table of places. A sender uses a place for
 * one channel, slot and tag: it puts the notice there that says how many there have been, behind
 * the data, and notifies (tca.h) with it. The table thus holds counters, and never overflows
 * however many notices of the same keys come. A place is used for another key when the receiver has
 * taken all that came there: it says so, once many are used, in a table of its own at the sender.
 *
 * A notice may be visible before the data in front of it is, its notification may not. A receiver
 * therefore believes what a table says when as many notifications have come from the sender as its
 * notices add up to.
 *
 * When a start fails, nobody knows whether its notices have come, and been taken: their numbers are
 * never used for others. If the program repeats the start, it has the same numbers, so that the
 * receiver takes both for one. If it starts something else, the next notice says that there is doubt
 * about the ones before: the receiver, who knows how many notifications have come, decides.
 */
#pragma once

#include "client/compat/compat.h"

/* As it lies in the receiver's memory. `check` finds one that is half written. */
struct notice {
    uint64_t key;   /* notice_key(); 0: never used, and nor are those behind it */
    uint64_t count; /* so far, also of earlier keys of this place */
    uint64_t check;
    uint64_t doubts; /* of these: their starts have failed, so that they may never have come */
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

/* Makes the tables, and learns where those of the others are. Collective. */
tcaresult notices_open(void);

/* ---- outbox.c: sending ---- */

/* A place at another process, for as long as a program uses it. */
struct place {
    uint32_t rank;
    uint32_t index;
};
tcaresult place_take(uint32_t rank, int channel, int slot, int tag, struct place *ret_place);
void place_give(struct place place);
/* Where notices of the place are put. */
struct tca_handle place_target(struct place place, uint64_t *ret_offset_bytes);
/* A start of this chain (a number that stands for it) will have notices of the place. */
void place_begin(struct place place, uint64_t chain);
/* The next notice of the place. */
struct notice place_next(struct place place);
/* It was not sent after all. */
void place_undo(struct place place);
/* The start of this chain that had it failed: it may have arrived all the same. */
void place_doubt(struct place place, uint64_t chain);

/* ---- inbox.c: receiving ---- */

tcaresult inbox_wait(uint32_t rank, int slot, int tag);
tcaresult inbox_test(uint32_t rank, int slot, int tag);

/* ---- notices.c: the tables ---- */
uint32_t notices_per_process(void);
struct notice *notices_from(uint32_t rank);
/* What `rank` has taken of what we sent there, by place. */
const _Atomic uint64_t *taken_at(uint32_t rank);
struct tca_handle notices_at(uint32_t rank);
/* Where in these tables `rank` is told what we have taken. */
uint64_t taken_offset(uint32_t rank_of_receiver);

/* ---- self.c: notifications to this process itself ---- */
struct self_key {
    int slot, tag;
};
tcaresult self_raise(struct self_key key);
bool self_take(struct self_key key);
