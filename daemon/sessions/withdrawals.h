/*
 * What a process is told of, by number, until it is to forget it: landings, puts whose copying it
 * may share. A release can withdraw thousands of them while the process computes, so they share
 * messages, which are sent as fast as it reads, or before the next event: events stay in order.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/loop.h"
#include "daemon/sessions/client.h"

struct session;

/* Of a session. Zeroed: none. */
struct withdrawals {
    uint32_t last_target; /* numbers given so far */
    uint32_t *targets;    /* withdrawn: the first `told` of `count` were sent */
    uint32_t count, told, room;
    bool telling;
    struct loop_job job;
    struct client_wait wait;
};

/* A number for what the process is about to be told of. */
uint32_t session_target(struct session *session);
void session_withdraw(struct session *session, uint32_t target);
/* Sends all of them now. */
void withdrawals_send(struct session *session);
void withdrawals_deinit(struct withdrawals *withdrawals);
