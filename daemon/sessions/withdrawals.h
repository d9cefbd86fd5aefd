/*
 * What a process has been told of and is to forget: landings, puts whose copying it may share. A release can withdraw thousands of them while the process computes, so they share
 * messages, which are sent as fast as it reads, or before the next event: events stay in order.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/loop.h"
#include "daemon/sessions/client.h"

struct session;

struct withdrawal {
    Tca__Event__Kind kind;
    uint32_t id, of;
};

/* Of a session. Zeroed: none. */
struct withdrawals {
    struct withdrawal *list;
    uint32_t count, told, room;
    bool telling;
    struct loop_job job;
    struct client_wait wait;
};

/* kind, id and of: as in Tca__Event. */
void session_withdraw(struct session *session, Tca__Event__Kind kind, uint32_t id, uint32_t of);
/* Sends all of them now. */
void withdrawals_send(struct session *session);
void withdrawals_deinit(struct withdrawals *withdrawals);
