/* Rails that anybody who reaches their port may talk to: whether they are used, and what people are
 * told about it. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "proto/segment.h"

struct tcad;

/* The rail was not opened, for want of protection (rails.ofi_unprotected). */
void exposure_refused(struct tcad *tcad, enum rail rail);
/* Why a rail that rails.enable names is off, for people; NULL: it is not off for this. Static, or
 * the daemon's. */
const char *exposure_off(const struct tcad *tcad, enum rail rail);
/* The remedy for it; "" where there is nothing to mend. */
const char *exposure_remedy(const struct tcad *tcad);

struct descriptors {
    uint64_t used, limit;
};
struct descriptors exposure_descriptors(void);
/* Completions and messages of a rail that no peer can have sent. */
uint64_t exposure_forged(const struct tcad *tcad, enum rail rail);

/* Watches what anybody can do to an unprotected rail: what is forged is logged, and the last
 * descriptors are kept for clients. */
void exposure_watch(struct tcad *tcad);
/* A client needs one now: whether those that are kept have been given up for it. */
bool exposure_give_up(struct tcad *tcad);
void exposure_end(struct tcad *tcad);

/* What the operator is to know, as a list of texts; empty: all is well. */
json_t *exposure_warnings(const struct tcad *tcad);
/* The same into the log, once, at start. */
void exposure_log(const struct tcad *tcad);
