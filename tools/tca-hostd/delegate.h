/* The process of tca-hostd that serves one offload processor: it executes the processor's requests
 * (proto/host.h), one after the other, in the processor's memory. */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/host.h"
#include "tca-coll.h"

enum { REDUCTIONS = 8 };

/* A prepared reduction, for requests with the same arguments. */
struct reduction {
    struct tca_coll *coll; /* NULL: free */
    struct host_request of;
    uint64_t bytes;
    void *in, *out; /* memory of tcad */
};

struct delegate {
    int fd; /* of the processor */
    int directory;
    uint8_t *memory; /* the processor's, which changes as it likes */
    uint64_t memory_bytes;
    struct tca *session; /* NULL: not open, or a collective request has failed */
    int failed;          /* with this error */
    struct reduction reductions[REDUCTIONS];
    uint32_t next; /* of these to be reused */
    char text[HOST_TEXT_BYTES];
};

/* Serves the processor until it closes the connection. The exit status of the process. */
int delegate_run(int fd, int directory);

/* Formats the text of an error, and returns it. */
int delegate_fail(struct delegate *delegate, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The result of a request that libtca does not send: then the connection ends. */
enum { REFUSED = -EPROTO };

/* A range of the processor's memory, or NULL. */
void *delegate_range(const struct delegate *delegate, uint64_t offset, uint64_t bytes);
/* Whether the processor has closed the connection. */
bool delegate_is_left(const struct delegate *delegate);

/* files.c, group.c: the result of a request. */
int64_t delegate_read(struct delegate *delegate, const struct host_request *request);
int64_t delegate_write(struct delegate *delegate, const struct host_request *request);
int64_t delegate_join(struct delegate *delegate, const struct host_request *request);
int64_t delegate_allgather(struct delegate *delegate, const struct host_request *request);
int64_t delegate_reduce(struct delegate *delegate, const struct host_request *request);
int64_t delegate_finalize(struct delegate *delegate, const struct host_request *request);
