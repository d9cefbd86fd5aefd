/*
 * Offload processors (DCFA): sessions that have an RDMA device's queues in their own memory. Their
 * commands are served here; drivers/manycore serves the queues.
 */
#pragma once

#include <stdint.h>

#include "proto/tca.pb-c.h"

struct offload;
struct port;
struct session;
struct tcad;

int offload_new(struct tcad *tcad, struct offload **ret_offload);
/* All sessions and the worker have ended. NULL is a no-op. */
void offload_free(struct offload *offload);

/* One of DcfaOpen, DcfaCreate, DcfaConnect and DcfaRelease. */
void offload_request(struct session *session, uint32_t tag, const Tca__Message *message);
/* Releases everything of the session's processor. */
void offload_session_gone(struct session *session);
