#pragma once

#include <stdint.h>

#include "proto/tca.pb-c.h"

/* Handles a request of a peer, for struct peers_events. context: the tcad. */
void peer_request(void *context, uint32_t node, uint32_t tag, const Tca__Message *request);
