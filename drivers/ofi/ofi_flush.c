/* Flushes: has everything that we have sent to a peer landed there? A question behind it all, and
 * its answer. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/ofi/ofi.h"
#include "proto/wait.h"

/* ---- asking ---- */

int ofi_peer_flush(struct driver *driver, struct driver_peer *driver_peer, struct driver_op *op)
{
    struct ofi_driver *ofi = ofi_of(driver);
    struct ofi_peer *peer = (struct ofi_peer *)driver_peer;
    if (peer->error < 0)
        return peer->error;
    struct ofi_flush *flush = calloc(1, sizeof(*flush));
    if (!flush)
        return -ENOMEM;
    flush->put.path = OFI_QUESTION;
    flush->put.peer = peer;
    flush->put.place = (struct flow_put){.peer = flush}; /* a flow of its own */
    flush->number = ++ofi->last_flush;
    ofi_put_enqueue(ofi, &flush->put, op);
    return 0;
}

static int send_question(struct ofi_driver *ofi, struct ofi_flush *flush)
{
    struct ofi_peer *peer = flush->put.peer;
    struct ofi_message question = {
        .type = OFI_FLUSH, .to = peer->address.cookie, .flush = flush->number};
    flush->again_ns = clock_now_ns() + (uint64_t)OFI_FLUSH_AGAIN_MS * 1000000;
    return ofi_message_send(ofi, peer->name, &question);
}

int ofi_flush_ask(struct ofi_driver *ofi, struct ofi_flush *flush)
{
    struct ofi_peer *peer = flush->put.peer;
    int r = send_question(ofi, flush);
    if (r == -EAGAIN)
        peer->blocked = OFI_BLOCKED_PROVIDER;
    if (r < 0)
        return r;
    flush->put.posted = true;
    flush->put.outstanding = 1;
    flush->asked = true;
    flush->deadline_ns = clock_now_ns() + (uint64_t)OFI_FLUSH_MS * 1000000;
    flush->next = ofi->flushes;
    ofi->flushes = flush;
    return 0;
}

void ofi_flush_forget(struct ofi_driver *ofi, struct ofi_flush *flush)
{
    if (flush->asked) {
        struct ofi_flush **at = &ofi->flushes;
        while (*at != flush)
            at = &(*at)->next;
        *at = flush->next;
    }
    free(flush);
}

/* The first that fits; ending one may lead to anything, so that the list is looked at anew after
 * each. */
static struct ofi_flush *find(struct ofi_driver *ofi, const struct ofi_peer *peer, uint64_t late_ns)
{
    struct ofi_flush *flush = ofi->flushes;
    while (flush && (peer ? flush->put.peer != peer : flush->deadline_ns > late_ns))
        flush = flush->next;
    return flush;
}

void ofi_flushes_fail(struct ofi_driver *ofi, const struct ofi_peer *peer)
{
    struct ofi_flush *flush;
    while ((flush = find(ofi, peer, 0)))
        ofi_put_done(ofi, &flush->put, peer->error);
}

void ofi_flush_answered(struct ofi_driver *ofi, const struct ofi_message *message)
{
    struct ofi_flush *flush = ofi->flushes;
    while (flush && flush->number != message->flush)
        flush = flush->next;
    if (!flush || memcmp(&flush->put.peer->address.cookie, &message->from.cookie,
                         sizeof(message->from.cookie)) != 0)
        return;
    flush->put.peer->connected = true;
    ofi_put_done(ofi, &flush->put, 0);
}

/* ---- answering ---- */

static int answer(struct ofi_driver *ofi, struct ofi_name *name, const struct ofi_secret *to,
                  uint32_t number)
{
    struct ofi_message message = {.type = OFI_FLUSHED, .to = *to, .flush = number};
    return ofi_message_send(ofi, name, &message);
}

/* Best effort: an asker that hears nothing gives up after a while. */
void ofi_flush_asked(struct ofi_driver *ofi, const struct ofi_message *message)
{
    struct ofi_name *name;
    if (ofi_name_take(ofi, &message->from, &name) < 0)
        return;
    struct ofi_answer *later = NULL;
    if (answer(ofi, name, &message->from.cookie, message->flush) == -EAGAIN &&
        ofi->answer_count < OFI_ANSWERS_MAX)
        later = malloc(sizeof(*later));
    if (!later) {
        ofi_name_give(ofi, name);
        return;
    }
    *later =
        (struct ofi_answer){.name = name, .to = message->from.cookie, .number = message->flush};
    *ofi->answers_last = later;
    ofi->answers_last = &later->next;
    ofi->answer_count++;
}

static void drop_first(struct ofi_driver *ofi)
{
    struct ofi_answer *first = ofi->answers;
    ofi->answers = first->next;
    if (!ofi->answers)
        ofi->answers_last = &ofi->answers;
    ofi->answer_count--;
    ofi_name_give(ofi, first->name);
    free(first);
}

void ofi_answers_drop(struct ofi_driver *ofi)
{
    while (ofi->answers)
        drop_first(ofi);
}

/* A write to memory that the peer has just let go of can cost the connection, and with it the
 * question. What was written before is then lost too, so that the answer to a later question is as
 * good. */
static void ask_again(struct ofi_driver *ofi)
{
    uint64_t now_ns = clock_now_ns();
    for (struct ofi_flush *flush = ofi->flushes; flush; flush = flush->next)
        if (now_ns >= flush->again_ns)
            send_question(ofi, flush); /* when it cannot be sent: the next time, or the deadline */
}

int ofi_flushes_settle(struct ofi_driver *ofi)
{
    int moved = 0;
    /* One look at each: who does not take answers goes to the end, and holds up nobody. */
    for (unsigned i = ofi->answer_count; i > 0; i--) {
        struct ofi_answer *first = ofi->answers;
        if (answer(ofi, first->name, &first->to, first->number) != -EAGAIN) {
            drop_first(ofi);
            moved++;
        } else if (first->next) {
            ofi->answers = first->next;
            first->next = NULL;
            *ofi->answers_last = first;
            ofi->answers_last = &first->next;
        }
    }
    ask_again(ofi);
    struct ofi_flush *late;
    while (ofi->flushes && (late = find(ofi, NULL, clock_now_ns()))) {
        ofi_put_done(ofi, &late->put, -ETIMEDOUT);
        moved++;
    }
    return moved;
}
