#include <errno.h>
#include <string.h>

#include "client/core/error.h"
#include "client/core/session.h"
#include "client/plan/pair.h"
#include "client/plan/plan.h"
#include "drivers/shm/share.h"

/* Of what the client puts itself. */
static enum encryption client_encryption(const struct tca_plan *plan)
{
    enum encryption highest = ENCRYPTION_LOCAL;
    for (uint32_t i = 0; i < plan->transfer_count && plan->client_count > 0; i++) {
        const struct pair *pair = plan->transfers[i].pair;
        const enum encryption of_pair =
            !pair                                                         ? ENCRYPTION_LOCAL
            : atomic_load_explicit(&pair->encrypts, memory_order_relaxed) ? ENCRYPTION_TLS
                                                                          : ENCRYPTION_NONE;
        highest = of_pair > highest ? of_pair : highest;
    }
    return highest;
}

int tca_plan_receipt(const struct tca_plan *plan, struct tca_receipt *ret_receipt)
{
    if (plan->last_starts == 0)
        return error_static(-ENODATA, "no start of this plan has completed yet");
    bool succeeded = plan->last_status == 0;
    const struct rail_list *rails = &plan->session->rails;
    uint32_t rail = plan->first_rail;
    struct tca_receipt receipt = {
        .seat = (enum tca_seat)plan->first_seat,
        .copy_method = plan->first_put ? (enum tca_copy_method)shm_put_copy_method(plan->first_put)
                                       : TCA_COPY_NONE,
        .encryption = (enum tca_encryption)client_encryption(plan),
        .trying = plan->flags & PLAN_TRIES ? 1 : 0,
        .status = plan->last_status,
        .descriptors = plan->client_count > 0 ? plan->client_descriptors : 0,
        .bytes = succeeded && plan->client_count > 0 ? plan->client_bytes : 0,
        .starts = plan->last_starts,
        .start_ns = plan->last.start_ns,
        .done_ns = plan->last.done_ns,
        .seen_ns = plan->last.seen_ns,
        .posted_ns = plan->client_count > 0 ? plan->last.done_ns : 0,
    };
    if (plan->state != PLAN_RUNNING)
        for (uint32_t i = 0; i < plan->client_count; i++)
            receipt.retries += chain_retries(plan->chains[i]);
    if (plan->daemon_count > 0) {
        const struct complete_entry *entry = &plan->entry;
        receipt.descriptors += entry->descriptors;
        receipt.bytes += succeeded ? entry->bytes : 0;
        receipt.retries += entry->retries;
        receipt.hops = entry->hops;
        if (entry->encryption > receipt.encryption)
            receipt.encryption = (enum tca_encryption)entry->encryption;
        receipt.taken_ns = entry->taken_ns;
        if (entry->posted_ns > receipt.posted_ns || plan->client_count == 0)
            receipt.posted_ns = entry->posted_ns;
        if (plan->first_seat == SEAT_DAEMON && entry->rail > 0 && entry->rail <= rails->count)
            rail = entry->rail; /* differs from the commit's after a re-binding */
    }
    receipt.rail = (enum tca_rail)rails->at[rail].driver;
    strcpy(receipt.rail_name, rails->at[rail].name);
    *ret_receipt = receipt;
    return 0;
}
