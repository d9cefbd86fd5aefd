/*
 * Offload processors (DCFA): sessions that have an RDMA device's queues in their own memory. Their
 * commands are served here; drivers/manycore serves the queues.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/tca.pb-c.h"

struct offload;
struct session;
struct tcad;

int offload_new(struct tcad *tcad, struct offload **ret_offload);
/* All sessions and the worker have ended. NULL is a no-op. */
void offload_free(struct offload *offload);

/* One of DcfaOpen, DcfaCreate, DcfaConnect and DcfaRelease. */
void offload_request(struct session *session, uint32_t tag, const Tca__Message *message);
/* Releases everything of the session's processor. */
void offload_session_gone(struct session *session);

/* ---- for displays ---- */

struct offload_counters { /* of queue entries: taken, completed, in error; bytes of sends */
    uint64_t entries, completions, errors, bytes;
};
struct offload_info {
    const char *device;
    uint64_t memory_bytes;
    uint32_t domains, cqs, qps, memories;
    struct offload_counters counters;
};
/* False: the session is no offload processor. */
bool offload_info(const struct session *session, struct offload_info *ret_info);
/* Of all offload processors since the start, and how many there are. */
struct offload_counters offload_totals(const struct tcad *tcad, uint32_t *ret_processors);
