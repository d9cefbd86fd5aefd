/*
 * Between an offload processor (client/dcfa/host.c) and tca-hostd, which works for it: one request
 * and its reply at a time, of fixed size, on a SOCK_SEQPACKET socket. HOST_OPEN comes first and
 * passes the processor's memory, a memfd sealed against shrinking, by SCM_RIGHTS; offsets are in
 * it.
 *
 * Refused requests end the connection; errors of the work do not.
 */
#pragma once

#include <assert.h>
#include <stdint.h>

enum {
    HOST_MAGIC = 0x54534f48, /* "HOST" */
    HOST_VERSION = 1,
    HOST_NAME_BYTES = 256,
    HOST_TEXT_BYTES = 400,
    HOST_GATHER_BYTES = 4096, /* most of one rank */
};

enum host_what {
    HOST_OPEN,      /* joins group `name` as `rank` of `size`; empty: a group of one */
    HOST_READ,      /* up to `count` bytes at `offset` of file `name` to `out` */
    HOST_WRITE,     /* `count` bytes at `in` to `offset` of file `name` */
    HOST_ALLGATHER, /* `count` bytes at `in`; those of all ranks to `out` */
    HOST_REDUCE,    /* `count` elements of `type` at `in`, by `combine`, to `out` of rank `rank` */
    HOST_ALLREDUCE, /* to `out` of all ranks */
    HOST_FINALIZE,  /* when all ranks have requested it */
    HOST_WHATS,
};

struct host_request {
    uint32_t magic;
    uint16_t version, what;
    uint64_t in, out;
    uint64_t count;
    uint64_t offset;
    uint32_t type, combine; /* of tca.h */
    uint32_t rank, size;
    int64_t timeout_ns; /* HOST_OPEN */
    char name[HOST_NAME_BYTES];
};
static_assert(sizeof(struct host_request) == 64 + HOST_NAME_BYTES, "wire format");

struct host_reply {
    uint32_t magic;
    uint32_t reserved;
    int64_t result;             /* 0 or more, or a negative errno */
    char text[HOST_TEXT_BYTES]; /* of an error */
};
static_assert(sizeof(struct host_reply) == 16 + HOST_TEXT_BYTES, "wire format");
