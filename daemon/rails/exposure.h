/* Unprotected rails, whose ports accept data from anyone: whether attacks are visible, and warnings
 * for the operator. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "proto/segment.h"

struct tcad;

enum { RESERVE_SHARE = 8 }; /* 1/8 of the descriptors is reserved for clients */
/* How many are, with this limit; not all of a high one. */
unsigned exposure_reserve(uint64_t limit);
/* Number of completions and messages on a rail that no peer can have sent. */
uint64_t exposure_forged(const struct tcad *tcad, unsigned rail);

/* Number of descriptors that the library of an unprotected rail has leaked. */
uint64_t exposure_leaked(const struct tcad *tcad, unsigned rail);

/* Starts to monitor an unprotected rail for attacks: logs forged messages and leaked descriptors,
 * and reserves descriptors for clients. */
void exposure_watch(struct tcad *tcad);
/* A client needs a descriptor: returns whether the reserved ones were released for it. */
bool exposure_give_up(struct tcad *tcad);
void exposure_end(struct tcad *tcad);

/* Warnings for the operator, as a list of texts. */
json_t *exposure_warnings(const struct tcad *tcad);
/* Logs the warnings, once, at start. */
void exposure_log(const struct tcad *tcad);
