/*
 * The slots of released messengers. Releasing is not collective: when this rank releases its
 * messenger, others may still send to it, and what they have sent may be on its way. Making the
 * next messenger is: all ranks then tell which ones they have released, and of those that all have,
 * how many notifications they have sent. When as many have arrived, nobody notifies the slots any
 * more.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/core/error.h"
#include "client/core/slots.h"
#include "client/msg/msg.h"

enum {
    LEFT_MAX = SLOTS_LIBRARY / MSG_SLOTS, /* a session has slots for so many messengers */
    PIECE = 1024,                         /* ranks whose numbers go in one call */
};

/* What ranks exchange: plain data. */
struct released {
    uint64_t count;
    uint64_t numbers[LEFT_MAX];
};

/* ---- this rank */

static uint32_t sent_to(const struct msg_peer *peer)
{
    const bool unsure = peer->unsure || (peer->failed && !msg_has_ended(peer->failed));

    return unsure || peer->notified == SLOTS_UNSURE ? SLOTS_UNSURE : peer->notified;
}

void msg_leave(struct tca_msg *msg)
{
    struct slots_left *left = calloc(1, sizeof(*left));
    uint32_t *wanted = calloc(msg->size, sizeof(*wanted)), *sent = calloc(msg->size, sizeof(*sent));

    if (!left || !wanted || !sent) {
        free(left);
        free(wanted);
        free(sent);
        slots_lose(msg->session, msg->slot, MSG_SLOTS);
        return;
    }
    for (uint32_t rank = 0; rank < msg->size; rank++) {
        wanted[rank] = msg->peers[rank].arrived;
        sent[rank] = sent_to(&msg->peers[rank]);
    }
    *left = (struct slots_left){.number = msg->number,
                                .slot = msg->slot,
                                .count = MSG_SLOTS,
                                .wanted = wanted,
                                .sent = sent};
    slots_leave(msg->session, left);
}

static int take(void *context)
{
    struct tca_msg *msg = context;
    int r = slots_take(msg->session, MSG_SLOTS, &msg->slot);

    return r >= 0 ? 1 : slots_awaited(msg->session) ? 0 : r;
}

int msg_slots_take(struct tca_msg *msg)
{
    const struct session_wait wait = {.ready = take, .context = msg};
    int r = session_wait_until(msg->session, &wait, TCA_DEFAULT);

    if (r == 0) /* for its text */
        r = slots_take(msg->session, MSG_SLOTS, &msg->slot);
    for (uint32_t rank = 0; r >= 0 && rank < msg->size; rank++)
        msg->peers[rank].arrived = slots_arrived(msg->session, rank, msg->slot, MSG_SLOTS);
    return r < 0 ? r : 0;
}

/* ---- all ranks */

static bool has(const struct released *released, uint64_t number)
{
    for (uint64_t i = 0; i < released->count && i < LEFT_MAX; i++)
        if (released->numbers[i] == number)
            return true;
    return false;
}

/* The first from `least` on that all ranks have released, the same one at all of them; NULL: there
 * is none. */
static struct slots_left *next_of_all(struct tca *session, const struct released *all,
                                      uint64_t least)
{
    struct slots_left *first = NULL;

    for (struct slots_left *left = slots_left(session); left; left = left->next) {
        bool everywhere = !left->told && left->number >= least;
        for (uint32_t rank = 0; everywhere && rank < tca_size(session); rank++)
            everywhere = has(&all[rank], left->number);
        if (everywhere && (!first || left->number < first->number))
            first = left;
    }
    return first;
}

/* What every rank has sent to this one. */
static int exchange(struct tca *session, struct slots_left *left)
{
    const uint32_t size = tca_size(session), me = tca_rank(session);
    uint32_t *rows = calloc((size_t)size * PIECE, sizeof(*rows));
    uint32_t *mine = calloc(size, sizeof(*mine));
    bool sure = true;
    int r = rows && mine ? 0 : error_static(-ENOMEM, "message: out of memory");

    for (uint32_t first = 0; r >= 0 && first < size; first += PIECE) {
        const uint32_t count = size - first < PIECE ? size - first : PIECE;
        r = tca_allgather(session, left->sent + first, count * sizeof(*rows), rows, TCA_DEFAULT);
        for (uint32_t rank = 0; r >= 0 && me >= first && me < first + count && rank < size; rank++)
            mine[rank] = rows[(size_t)rank * count + me - first];
    }
    for (uint32_t rank = 0; r >= 0 && rank < size; rank++) {
        sure &= mine[rank] != SLOTS_UNSURE;
        left->wanted[rank] += mine[rank];
    }
    free(rows);
    free(mine);
    if (r >= 0)
        slots_told(session, left, sure);
    return r;
}

int msg_reclaim_slots(struct tca *session)
{
    struct released mine = {0}, *all = calloc(tca_size(session), sizeof(*all));
    uint64_t least = 0;

    if (!all)
        return error_static(-ENOMEM, "message: out of memory");
    for (const struct slots_left *left = slots_left(session); left; left = left->next)
        if (!left->told)
            mine.numbers[mine.count++] = left->number;
    int r = tca_allgather(session, &mine, sizeof(mine), all, TCA_DEFAULT);
    for (struct slots_left *left; r >= 0 && (left = next_of_all(session, all, least));) {
        least = left->number + 1;
        r = exchange(session, left);
    }
    free(all);
    return r;
}
