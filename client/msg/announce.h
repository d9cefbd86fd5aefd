/*
 * Receives that tell their sender where a message goes, before it is sent.
 *
 * A receive from a known rank that is posted is *announced* in memory of that rank (struct
 * announce_page), in the order in which receives were posted. The sender works out from the
 * announcements, and from the messages that it has sent, which receive its next message will
 * match, without asking: its *forecast*. If the receive is in a region, it then copies the data
 * straight there, and its packet names the announcement.
 *
 * Why the forecast is exact. All messages from one rank to another are numbered, and are processed
 * in that order. The receiver announces only receives before which no other one stands that takes
 * the same message and that was not announced to that sender. An announcement says how many
 * messages had been processed when it was made: those did not match it, and each later one matches
 * the first receive that takes it. The sender therefore gives the messages that it has sent, in
 * their order, to the announcements, in theirs. Each that is given away is *claimed*, in a word
 * that the receiver changes too when the program withdraws a receive: whoever is first decides.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/memory/near.h"
#include "client/msg/match_table.h"

enum {
    ANNOUNCE_LINES = 16, /* that the sender has not read */
    ANNOUNCE_WORDS = 64, /* receives that are announced at the same time */
    ANNOUNCE_PLAIN = 64, /* messages that the sender has sent and that may not be processed */
};

/* What a receive tells. Valid once its number is that of its line. */
struct announcement {
    _Alignas(64) _Atomic uint64_t number; /* of the pair of ranks, from 1 on */
    uint32_t word;                        /* index */
    uint32_t context, tag;                /* tag: or MATCH_ANY */
    uint32_t seen;           /* messages of the sender that were processed when it was made */
    struct near_place place; /* of the receive's memory; region 0: none where data may be put */
    uint64_t bytes;          /* which is so long */
};

/* What a rank keeps for each other rank to announce its receives in. The other one writes the
 * lines; both change words. */
struct announce_page {
    struct announcement lines[ANNOUNCE_LINES]; /* by number */
    /* Of receives that are announced: number * 4 + state. */
    _Alignas(64) _Atomic uint64_t words[ANNOUNCE_WORDS];
    _Alignas(64) _Atomic uint64_t read; /* announcements that the sender has read, and given all
                                         * messages to that it had sent before */
};

/* ---- the receiver */

struct announcer {
    struct announce_page *page; /* in the sender's memory */
    uint64_t number;            /* of the last announcement */
    uint64_t read;              /* page->read, as last seen */
    uint64_t numbers[ANNOUNCE_WORDS];
    uint64_t used, ended; /* bits: words in use; of these, receives that are complete */
};

/* Announces a receive: all of it but number and word. Returns its word, or -1: no room. */
int announce_make(struct announcer *announcer, const struct announcement *announcement);
/* The program withdraws the receive: true, or false: a message is coming for it. */
bool announce_withdraw(struct announcer *announcer, uint32_t word);
/* Of a receive that could not be withdrawn: whether the sender's copying, if any, has ended. */
bool announce_is_copied(const struct announcer *announcer, uint32_t word);
/* The receive has got its message. told: the packet has named it. */
void announce_end(struct announcer *announcer, uint32_t word, bool told);

/* ---- the sender */

struct forecast_plain {
    struct match_key key;
    uint32_t number;
};

struct forecast {
    struct announce_page *page;                   /* in this rank's memory */
    struct announcement standing[ANNOUNCE_WORDS]; /* that no message was given to, in order */
    uint32_t standing_count;
    uint64_t read;
    /* Messages that were given to no announcement, and may not be processed yet, in order. */
    struct forecast_plain plain[ANNOUNCE_PLAIN];
    uint32_t plain_count;
};

/* Reads what has been announced. processed: messages that the receiver has processed, as found out
 * before this call. -EPROTO: the page is not as the receiver may write it. */
int forecast_read(struct forecast *forecast, uint32_t processed);
/* The announcement of the receive that the next message will match, after forecast_read(); it is
 * given to it. False: not known. */
bool forecast_claim(struct forecast *forecast, struct match_key message,
                    struct announcement *ret_announcement);
/* The same as the other calls for a message, as long as no receive is announced. False: it has done
 * nothing. */
static inline bool forecast_pass(struct forecast *forecast, struct match_key message,
                                 uint32_t number)
{
    const struct announcement *line = &forecast->page->lines[(forecast->read + 1) % ANNOUNCE_LINES];

    if (forecast->standing_count > 0 || forecast->plain_count == ANNOUNCE_PLAIN ||
        atomic_load_explicit(&line->number, memory_order_relaxed) == forecast->read + 1)
        return false;
    forecast->plain[forecast->plain_count++] = (struct forecast_plain){message, number};
    return true;
}
/* What was to be copied to a claimed receive has been copied, or will not be. */
void forecast_copied(struct forecast *forecast, const struct announcement *announcement);
/* A message was sent that forecast_claim() found no announcement for. At most ANNOUNCE_PLAIN may
 * not be processed. */
void forecast_sent(struct forecast *forecast, struct match_key message, uint32_t number);
