/*
 * Reuse of bus addresses, on the owner's side. Other nodes may have puts prepared or in flight to
 * the address of a freed landing. So the address is unmapped at once, but not reused until each
 * node that was told of it has confirmed a RECALL (drivers/recall.h): it starts no more puts there,
 * and its packets have landed or will be discarded. One range at a time is recalled, and only when
 * many addresses wait for that.
 *
 * A node that does not confirm in time loses its admission: the board discards its packets, and the
 * addresses are reused. When it returns, it gets a REVOKE, which fails its peers whose puts were
 * prepared earlier, and is admitted again when it has confirmed that.
 *
 * A node is first admitted when it has synced with this instance: packets for landings of an
 * earlier instance, which had the same addresses, are discarded.
 */
#include <errno.h>

#include "drivers/peach2/peach2.h"

#define MS UINT64_C(1000000)

enum { LEFT_SHARE = 8, INSTANCE_SHIFT = 36, INSTANCE_MASK = 0xfffff };

static unsigned node_of(const struct peach2 *peach2, const struct recall_holder *holder)
{
    return (unsigned)(holder - peach2->reuse.nodes);
}

static bool holds(void *context, const struct recall_holder *holder, const struct recall_key *key)
{
    const struct peach2 *peach2 = context;
    return peach2->reuse.span->nodes >> node_of(peach2, holder) & 1;
}

static int send(void *context, struct recall_holder *holder, struct recall_key *const *keys,
                unsigned count, uint64_t number)
{
    struct peach2 *peach2 = context;
    const unsigned node = node_of(peach2, holder);
    const bool is_sent = count > 0 ? peach2_message_recall(peach2, node, number, peach2->reuse.span)
                                   : peach2_message_revoke(peach2, node, number);
    return is_sent ? 0 : -EAGAIN;
}

void peach2_recall_tell_board(struct peach2 *peach2)
{
    if (peach2->device.bar0)
        atomic_store(&peach2->device.bar0->admitted, peach2->reuse.admitted);
}

static void set_admitted(struct peach2 *peach2, unsigned node, bool admitted)
{
    const uint32_t bit = UINT32_C(1) << node, all = peach2->reuse.admitted;
    peach2->reuse.admitted = admitted ? all | bit : all & ~bit;
    peach2_recall_tell_board(peach2);
}

static void cut_off(void *context, struct recall_holder *holder)
{
    set_admitted(context, node_of(context, holder), false);
}

static void give(void *context, struct recall_key *key)
{
    struct peach2 *peach2 = context;
    pthread_mutex_lock(&peach2->lock);
    spans_give(&peach2->spans, peach2->reuse.span);
    pthread_mutex_unlock(&peach2->lock);
    peach2->reuse.span = NULL;
}

static const struct recall_driver recall_driver = {
    .holds = holds,
    .send = send,
    .cut_off = cut_off,
    .free = give,
    .many = 1,
    .again_ns = REQUEST_AGAIN_MS * MS,
    .deadline_ns = CUT_OFF_MS * MS,
};

int peach2_recall_init(struct peach2 *peach2)
{
    int r = recall_init(&peach2->recall, &recall_driver, peach2,
                        (peach2->cookie & INSTANCE_MASK) << INSTANCE_SHIFT, -1);
    for (unsigned node = 0; node < PEACH2_NODES && r == 0; node++)
        recall_join(&peach2->recall, &peach2->reuse.nodes[node]);
    return r;
}

void peach2_recall_deinit(struct peach2 *peach2)
{
    recall_deinit(&peach2->recall);
}

bool peach2_recall_admit(struct peach2 *peach2, unsigned node)
{
    const bool admits = recall_admits(&peach2->recall, &peach2->reuse.nodes[node]);
    if (admits && !(peach2->reuse.admitted >> node & 1))
        set_admitted(peach2, node, true);
    return admits;
}

void peach2_recall_confirmed(struct peach2 *peach2, unsigned node, uint64_t number)
{
    if (recall_ack(&peach2->recall, &peach2->reuse.nodes[node], number) &&
        peach2->sources[node].epoch > 0)
        set_admitted(peach2, node, true);
}

bool peach2_recall_due(struct peach2 *peach2)
{
    const struct spans *spans = &peach2->spans;
    return recall_is_busy(&peach2->recall) || spans->left_bytes >= spans->bytes / LEFT_SHARE ||
           atomic_load_explicit(&peach2->reuse.wanted, memory_order_relaxed);
}

unsigned peach2_recall_run(struct peach2 *peach2, uint64_t now_ns)
{
    if (!peach2->reuse.span) {
        pthread_mutex_lock(&peach2->lock);
        peach2->reuse.span = spans_recall(&peach2->spans);
        pthread_mutex_unlock(&peach2->lock);
        if (peach2->reuse.span)
            recall_begin(&peach2->recall, &peach2->reuse.key, now_ns);
        else
            atomic_store_explicit(&peach2->reuse.wanted, false, memory_order_relaxed);
    }
    return recall_is_busy(&peach2->recall) ? recall_run(&peach2->recall, now_ns) : 0;
}
