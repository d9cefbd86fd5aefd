/*
 * Reuse of bus addresses, on the owner's side. Other nodes may have puts prepared or in flight to
 * the address of a freed landing. So the address is unmapped at once, but not reused until each node
 * that was told of it has confirmed a RECALL: it starts no more puts there, and its packets have
 * landed or will be discarded. One range at a time is recalled, and only when many addresses wait
 * for that.
 *
 * A node that does not confirm in time loses its admission: the board discards its packets, and the
 * addresses are reused. When it returns, it gets a REVOKE, which fails its peers whose puts were
 * prepared earlier, and is admitted again when it has confirmed that.
 *
 * A node is first admitted when it has synced with this instance: packets for landings of an earlier
 * instance, which had the same addresses, are discarded.
 */
#include "drivers/peach2/peach2.h"

enum { LEFT_SHARE = 8, INSTANCE_SHIFT = 36, INSTANCE_MASK = 0xfffff };

void peach2_recall_init(struct peach2 *peach2)
{
    peach2->recall.number = (peach2->cookie & INSTANCE_MASK) << INSTANCE_SHIFT;
}

void peach2_recall_tell_board(struct peach2 *peach2)
{
    if (peach2->device.bar0)
        atomic_store(&peach2->device.bar0->admitted, peach2->recall.admitted);
}

static void set_admitted(struct peach2 *peach2, uint32_t admitted)
{
    peach2->recall.admitted = admitted;
    peach2_recall_tell_board(peach2);
}

bool peach2_recall_admit(struct peach2 *peach2, unsigned node)
{
    struct recall *recall = &peach2->recall;
    const uint32_t bit = UINT32_C(1) << node;
    recall->revoke |= recall->owing & bit;
    if (!(recall->owing & bit) && !(recall->admitted & bit))
        set_admitted(peach2, recall->admitted | bit);
    return !(recall->owing & bit);
}

/* ---- recalling ---- */

bool peach2_recall_due(const struct peach2 *peach2)
{
    const struct spans *spans = &peach2->spans;
    return peach2->recall.span || spans->left_bytes >= spans->bytes / LEFT_SHARE ||
           atomic_load_explicit(&peach2->recall.wanted, memory_order_relaxed);
}

static void begin(struct peach2 *peach2, uint64_t now_ns)
{
    struct recall *recall = &peach2->recall;
    pthread_mutex_lock(&peach2->lock);
    recall->span = spans_recall(&peach2->spans);
    pthread_mutex_unlock(&peach2->lock);
    if (!recall->span) {
        atomic_store_explicit(&recall->wanted, false, memory_order_relaxed);
        return;
    }
    recall->number++;
    for (unsigned node = 0; node < PEACH2_NODES; node++)
        if (recall->span->nodes & recall->owing & UINT32_C(1) << node)
            recall->owes[node] = recall->number;
    recall->waiting = recall->tell = recall->span->nodes & ~recall->owing;
    recall->again_ns = now_ns + REQUEST_AGAIN_MS * UINT64_C(1000000);
    recall->deadline_ns = now_ns + CUT_OFF_MS * UINT64_C(1000000);
}

static void cut_off(struct peach2 *peach2)
{
    struct recall *recall = &peach2->recall;
    for (unsigned node = 0; node < PEACH2_NODES; node++)
        if (recall->waiting & UINT32_C(1) << node)
            recall->owes[node] = recall->number;
    recall->owing |= recall->waiting;
    set_admitted(peach2, recall->admitted & ~recall->waiting);
    recall->waiting = 0;
}

static void end(struct peach2 *peach2)
{
    struct recall *recall = &peach2->recall;
    pthread_mutex_lock(&peach2->lock);
    spans_give(&peach2->spans, recall->span);
    pthread_mutex_unlock(&peach2->lock);
    recall->span = NULL;
    recall->tell = 0;
}

unsigned peach2_recall_run(struct peach2 *peach2, uint64_t now_ns)
{
    struct recall *recall = &peach2->recall;
    if (!recall->span)
        begin(peach2, now_ns);
    if (!recall->span)
        return 0;
    if (now_ns > recall->deadline_ns)
        cut_off(peach2);
    if (recall->waiting == 0) {
        end(peach2);
        return 1;
    }
    if (now_ns > recall->again_ns) {
        recall->tell = recall->waiting;
        recall->again_ns = now_ns + REQUEST_AGAIN_MS * UINT64_C(1000000);
    }
    return 0;
}

unsigned peach2_recall_send(struct peach2 *peach2, unsigned node)
{
    struct recall *recall = &peach2->recall;
    const uint32_t bit = UINT32_C(1) << node;
    unsigned moved = 0;
    if (recall->tell & bit && peach2_message_recall(peach2, node, recall->number, recall->span)) {
        recall->tell &= ~bit;
        moved++;
    }
    if (recall->revoke & bit && peach2_message_revoke(peach2, node, recall->number)) {
        recall->revoke &= ~bit;
        moved++;
    }
    return moved;
}

void peach2_recall_confirmed(struct peach2 *peach2, unsigned node, uint64_t number)
{
    struct recall *recall = &peach2->recall;
    const uint32_t bit = UINT32_C(1) << node;
    if (number == recall->number)
        recall->waiting &= ~bit;
    recall->tell &= recall->waiting;
    if (!(recall->owing & bit))
        return;
    if (number != recall->owes[node] && !recall_is_before(recall->owes[node], number)) {
        recall->revoke |= bit;
        return;
    }
    recall->owing &= ~bit;
    recall->revoke &= ~bit;
    if (peach2->sources[node].epoch > 0)
        set_admitted(peach2, recall->admitted | bit);
}
