/*
 * Requests of ours, beside the MPI's. Their handles are what the MPI never uses: Open MPI's handles
 * are pointers, ours point into addresses that we have reserved; MPICH's are integers, whose two
 * highest bits, of ours 0, name a kind of objects, of which there are three others.
 *
 * The lock is held in all functions except where they say otherwise.
 */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/mpi/next.h"

#include "client/mpi/communicator.h"
#include "client/mpi/datatype.h"
#include "client/mpi/shim.h"

enum request_kind {
    REQUEST_SEND,
    REQUEST_RECEIVE,
    REQUEST_BOTH,    /* MPI_Isendrecv(): a receive, and a send behind it */
    REQUEST_MESSAGE, /* of a matched probe: no request, but its handle is made like one */
    REQUEST_IDUP,    /* the MPI duplicates a communicator */
};

enum send_mode {
    SEND_STANDARD, /* and ready */
    SEND_SYNCHRONOUS,
    SEND_BUFFERED,
};

/* What a communicator is duplicated with. */
struct request_idup {
    MPI_Request parts[2]; /* of the MPI: the communicator, and its number */
    MPI_Comm *made;
    uint32_t context;
    bool done;
};

struct request {
    struct request *next; /* of those that are free, or detached */
    enum request_kind kind;
    enum send_mode mode;
    bool persistent, active;
    int rank, tag; /* of the call, until a message is matched */
    struct communicator *communicator;
    struct tca_msg_request *carried; /* NULL: not active, or complete */
    struct datatype_use use;
    struct request *behind; /* the send of REQUEST_BOTH */
#ifdef OPEN_MPI
    MPI_Fint number; /* in Fortran: where Open MPI's Fortran reads it out of the MPI's requests */
#endif
    void *copy;                      /* what is sent, if it is a copy */
    struct tca_msg_message *message; /* of REQUEST_MESSAGE */
    uint64_t message_bytes;
    struct request_idup idup;
};

#ifdef OPEN_MPI
enum { REQUEST_NUMBER_OFFSET = 104 };
static_assert(offsetof(struct request, number) == REQUEST_NUMBER_OFFSET, "as in Open MPI 4.1");
#endif

enum { REQUESTS_MAX = 1 << 20 };

extern struct request *requests; /* [REQUESTS_MAX], NULL while we are not active */

/* Ours; NULL: not ours. */
static inline struct request *request_of(MPI_Request handle)
{
#ifdef OPEN_MPI
    const uint64_t offset = (uintptr_t)handle - (uintptr_t)requests;

    return requests && offset < REQUESTS_MAX * sizeof(struct request)
               ? (struct request *)(uintptr_t)handle
               : NULL;
#else
    const uint32_t number = (uint32_t)handle - (uint32_t)MPI_REQUEST_NULL;

    return requests && number - 1 < REQUESTS_MAX - 1 ? &requests[number] : NULL;
#endif
}

static inline MPI_Request request_handle(const struct request *request)
{
#ifdef OPEN_MPI
    return (MPI_Request)(uintptr_t)request;
#else
    return MPI_REQUEST_NULL + (int)(request - requests);
#endif
}

/* 0, or -ENOMEM. Before the session is active. */
int requests_init(void);
void requests_deinit(void);

/* A request of a communicator; NULL: there are REQUESTS_MAX. */
struct request *request_new(enum request_kind kind, struct communicator *communicator);
/* Frees one that is not active. */
void request_free(struct request *request);

/* Starts it. 0, or a negative errno: it remains inactive. */
int request_start(struct request *request);
/* Whether it is complete, also with an error; or not active. */
bool request_is_done(struct request *request);
/* The same after its messages were advanced. */
bool request_test(struct request *request);
/* Waits until it is complete; lets go of the lock meanwhile. */
void request_wait(struct request *request);
/* Fills in the status of one that is complete. */
void request_peek(const struct request *request, MPI_Status *status);
/* Withdraws a receive that no message has matched. */
void request_cancel(struct request *request);
/* Ends one that is complete: it is freed, unless it is persistent. Fills in the status. Returns 0
 * or a negative errno, for which the caller raises an error in the communicator *ret_comm. */
int request_finish(struct request *request, MPI_Status *status, MPI_Comm *ret_comm);
/* Lets an active request of the program go on without it. */
void request_detach(struct request *request);
/* Frees detached requests that are complete; returns whether others are left. */
bool requests_reap(void);

/* The data of a send, to be freed. NULL: no memory. */
void *request_copy(const struct datatype_use *use);
extern uint32_t requests_active;

/* ---- communicator's call with a request; takes the lock itself */

int request_duplicate(MPI_Comm comm, MPI_Info info, MPI_Comm *made, MPI_Request *ret_handle);

/* ---- send.c, receive.c */

/* The communicator, if the call is carried; NULL: the MPI gets it. */
struct communicator *send_check(const struct call *call);
struct communicator *receive_check(const struct call *call);
/* Makes the request of a carried call and starts it, unless it is persistent. 0, or a negative
 * errno; -EINVAL: the MPI gets the call. */
int send_new(const struct call *call, struct communicator *communicator, enum send_mode mode,
             bool persistent, struct request **ret_request);
int receive_new(const struct call *call, struct communicator *communicator, bool persistent,
                struct request **ret_request);

/* ---- buffer.c: the buffer of MPI_Buffer_attach(), of which we only count how much is in use */

/* Takes room for a message. -ENOBUFS: there is not enough. */
int buffer_take(uint64_t bytes);
void buffer_give(uint64_t bytes);
