/* What displays show of offload processors. */
#include "daemon/offload/offload_internal.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"

static struct offload_counters counters_of(const struct port_stats *stats)
{
    return (struct offload_counters){
        .entries = atomic_load_explicit(&stats->entries, memory_order_relaxed),
        .completions = atomic_load_explicit(&stats->completions, memory_order_relaxed),
        .errors = atomic_load_explicit(&stats->errors, memory_order_relaxed),
        .bytes = atomic_load_explicit(&stats->bytes, memory_order_relaxed),
    };
}

bool offload_info(const struct session *session, struct offload_info *ret_info)
{
    const struct processor *processor =
        table_find(&session->tcad->offload->processors, session->id);
    if (!processor || !processor->opened)
        return false;
    const struct port *port = processor->port;
    const _Atomic uint32_t *counts = port->counts;
    *ret_info = (struct offload_info){
        .device = port->device->name,
        .memory_bytes = port->segment_bytes,
        .domains = atomic_load_explicit(&counts[DCFA_DOMAIN], memory_order_relaxed),
        .cqs = atomic_load_explicit(&counts[DCFA_CQ], memory_order_relaxed),
        .qps = atomic_load_explicit(&counts[DCFA_QP], memory_order_relaxed),
        .memories = atomic_load_explicit(&counts[DCFA_MEMORY], memory_order_relaxed),
        .counters = counters_of(&port->stats),
    };
    return true;
}

struct offload_counters offload_totals(const struct tcad *tcad, uint32_t *ret_processors)
{
    *ret_processors = (uint32_t)tcad->offload->processors.count;
    return counters_of(&tcad->offload->totals);
}
