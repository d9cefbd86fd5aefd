#include "client/msg/announce.h"

#include <errno.h>

#include "client/core/error.h"

/* Of a word. From ANNOUNCED to another one, and from CLAIMED, while the sender may be copying, to
 * COPIED. */
enum { COPIED = 0, ANNOUNCED = 1, CLAIMED = 2, WITHDRAWN = 3 };

/* Of messages: their numbers wrap. */
static bool is_before(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) < 0;
}

static bool decide(struct announce_page *page, uint32_t word, uint64_t number, uint32_t state)
{
    uint64_t announced = number << 2 | ANNOUNCED;

    return atomic_compare_exchange_strong(&page->words[word], &announced, number << 2 | state);
}

/* ---- the receiver */

/* The words of receives that are complete, and that the sender has read of: until then it must find
 * the number there. */
static void reclaim(struct announcer *announcer)
{
    announcer->read = atomic_load_explicit(&announcer->page->read, memory_order_acquire);
    for (uint64_t bits = announcer->ended; bits; bits &= bits - 1) {
        const uint32_t word = (uint32_t)__builtin_ctzll(bits);
        if (announcer->read >= announcer->numbers[word]) {
            announcer->used &= ~(UINT64_C(1) << word);
            announcer->ended &= ~(UINT64_C(1) << word);
        }
    }
}

static bool has_room(const struct announcer *announcer)
{
    return ~announcer->used && announcer->number - announcer->read < ANNOUNCE_LINES;
}

static_assert(ANNOUNCE_WORDS == 64, "a bit each");

int announce_make(struct announcer *announcer, const struct announcement *announcement)
{
    struct announce_page *page = announcer->page;

    if (!has_room(announcer))
        reclaim(announcer);
    if (!has_room(announcer))
        return -1;
    const uint64_t number = ++announcer->number;
    const uint32_t word = (uint32_t)__builtin_ctzll(~announcer->used);
    struct announcement *line = &page->lines[number % ANNOUNCE_LINES];
    announcer->used |= UINT64_C(1) << word;
    announcer->numbers[word] = number;
    atomic_store_explicit(&page->words[word], number << 2 | ANNOUNCED, memory_order_relaxed);
    line->word = word;
    line->context = announcement->context;
    line->tag = announcement->tag;
    line->seen = announcement->seen;
    line->place = announcement->place;
    line->bytes = announcement->bytes;
    atomic_store_explicit(&line->number, number, memory_order_release);
    return (int)word;
}

void announce_end(struct announcer *announcer, uint32_t word, bool told)
{
    if (told) /* it has been read, and claimed */
        announcer->used &= ~(UINT64_C(1) << word);
    else
        announcer->ended |= UINT64_C(1) << word;
}

bool announce_withdraw(struct announcer *announcer, uint32_t word)
{
    if (!decide(announcer->page, word, announcer->numbers[word], WITHDRAWN))
        return false;
    announce_end(announcer, word, false);
    return true;
}

bool announce_is_copied(const struct announcer *announcer, uint32_t word)
{
    return atomic_load_explicit(&announcer->page->words[word], memory_order_acquire) !=
           (announcer->numbers[word] << 2 | CLAIMED);
}

/* ---- the sender */

static bool takes(const struct announcement *announcement, struct match_key message)
{
    return announcement->context == message.context &&
           (announcement->tag == message.tag || announcement->tag == MATCH_ANY);
}

static uint64_t number_of(const struct announcement *announcement)
{
    return atomic_load_explicit(&announcement->number, memory_order_relaxed);
}

static void forget(struct forecast *forecast, uint32_t i)
{
    forecast->plain_count--;
    for (; i < forecast->plain_count; i++)
        forecast->plain[i] = forecast->plain[i + 1];
}

/* A new announcement: the first message that was sent before it was known, and that it gets, or
 * none yet. */
static void give(struct forecast *forecast, const struct announcement *announcement)
{
    for (uint32_t i = 0; i < forecast->plain_count; i++) {
        const struct forecast_plain *plain = &forecast->plain[i];
        if (!is_before(announcement->seen, plain->number) || !takes(announcement, plain->key))
            continue;
        if (decide(forecast->page, announcement->word, number_of(announcement), COPIED))
            forget(forecast, i);
        return; /* otherwise it has been withdrawn */
    }
    forecast->standing[forecast->standing_count++] = *announcement;
}

static void drop(struct forecast *forecast, uint32_t i)
{
    forecast->standing_count--;
    for (; i < forecast->standing_count; i++)
        forecast->standing[i] = forecast->standing[i + 1];
}

/* Those that the receiver has withdrawn, to make room: their words may be in use again. */
static void drop_withdrawn(struct forecast *forecast)
{
    for (uint32_t i = forecast->standing_count; i-- > 0;) {
        const struct announcement *standing = &forecast->standing[i];
        if (atomic_load_explicit(&forecast->page->words[standing->word], memory_order_relaxed) !=
            (number_of(standing) << 2 | ANNOUNCED))
            drop(forecast, i);
    }
}

static int read_one(struct forecast *forecast, const struct announcement *line)
{
    struct announcement announcement = *line; /* once: the receiver can write it at any time */

    atomic_store_explicit(&announcement.number, forecast->read + 1, memory_order_relaxed);
    if (announcement.word >= ANNOUNCE_WORDS)
        return error_set(-EPROTO, "an announcement of word %u", announcement.word);
    if (forecast->standing_count == ANNOUNCE_WORDS)
        drop_withdrawn(forecast);
    if (forecast->standing_count == ANNOUNCE_WORDS)
        return error_set(-EPROTO, "more than %d announcements", ANNOUNCE_WORDS);
    give(forecast, &announcement);
    return 0;
}

int forecast_read(struct forecast *forecast, uint32_t processed)
{
    const uint64_t first = forecast->read;
    uint32_t done = 0;
    int r = 0;

    for (; forecast->read - first < ANNOUNCE_LINES; forecast->read++) {
        const struct announcement *line =
            &forecast->page->lines[(forecast->read + 1) % ANNOUNCE_LINES];
        if (atomic_load_explicit(&line->number, memory_order_acquire) != forecast->read + 1)
            break;
        if ((r = read_one(forecast, line)) < 0)
            return r;
    }
    if (forecast->read != first)
        atomic_store_explicit(&forecast->page->read, forecast->read, memory_order_release);
    while (done < forecast->plain_count && !is_before(processed, forecast->plain[done].number))
        done++;
    forecast->plain_count -= done;
    for (uint32_t i = 0; done > 0 && i < forecast->plain_count; i++)
        forecast->plain[i] = forecast->plain[i + done];
    return 0;
}

bool forecast_claim(struct forecast *forecast, struct match_key message,
                    struct announcement *ret_announcement)
{
    for (uint32_t i = 0; i < forecast->standing_count;) {
        const struct announcement standing = forecast->standing[i];
        if (!takes(&standing, message)) {
            i++;
            continue;
        }
        drop(forecast, i);
        if (decide(forecast->page, standing.word, number_of(&standing), CLAIMED)) {
            *ret_announcement = standing;
            return true;
        }
    }
    return false;
}

void forecast_copied(struct forecast *forecast, const struct announcement *announcement)
{
    uint64_t claimed = number_of(announcement) << 2 | CLAIMED;

    /* For announce_is_copied(): the receiver's memory is not touched any more. */
    atomic_compare_exchange_strong_explicit(&forecast->page->words[announcement->word], &claimed,
                                            number_of(announcement) << 2 | COPIED,
                                            memory_order_release, memory_order_relaxed);
}

void forecast_sent(struct forecast *forecast, struct match_key message, uint32_t number)
{
    forecast->plain[forecast->plain_count++] = (struct forecast_plain){message, number};
}
