/* Requests to tca-hostd, which works for an offload processor. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/core/environment.h"
#include "client/core/error.h"
#include "client/core/identity.h"
#include "client/dcfa/dcfa.h"
#include "proto/host.h"

struct dcfa_host {
    const struct dcfa *processor;
    int fd;
    uint32_t rank, size;
};

/* ---- requests ---- */

static int send_request(int fd, struct host_request *request, int memory_fd)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {.head = {.cmsg_len = CMSG_LEN(sizeof(int)),
                          .cmsg_level = SOL_SOCKET,
                          .cmsg_type = SCM_RIGHTS}};
    struct iovec part = {request, sizeof(*request)};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    memcpy(CMSG_DATA(&control.head), &memory_fd, sizeof(memory_fd));
    if (memory_fd >= 0) {
        message.msg_control = &control;
        message.msg_controllen = sizeof(control);
    }
    request->magic = HOST_MAGIC;
    request->version = HOST_VERSION;
    ssize_t n;
    do
        n = sendmsg(fd, &message, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : 0;
}

static int receive_reply(int fd, struct host_reply *ret_reply)
{
    ssize_t n;
    do
        n = recv(fd, ret_reply, sizeof(*ret_reply), MSG_TRUNC);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    if (n == 0)
        return -ECONNRESET;
    if (n != sizeof(*ret_reply) || ret_reply->magic != HOST_MAGIC)
        return -EPROTO;
    ret_reply->text[sizeof(ret_reply->text) - 1] = '\0';
    return 0;
}

/* The result of the work. memory_fd: -1: none. */
static int64_t ask(const struct dcfa_host *host, struct host_request *request, int memory_fd)
{
    struct host_reply reply;
    int r = send_request(host->fd, request, memory_fd);
    if (r == 0 || r == -EPIPE) /* the reason can be waiting */
        r = receive_reply(host->fd, &reply);
    if (r == -ECONNRESET || r == -EPIPE)
        return error_static(-EOWNERDEAD, "tca-hostd has ended, or has refused this process: it "
                                         "only works for processes of its own user");
    if (r < 0)
        return error_set(r, "tca-hostd: %s", strerrordesc_np(-r));
    return reply.result < 0 ? error_set((int)reply.result, "tca-hostd: %s", reply.text)
                            : reply.result;
}

/* The offset of something in the processor's memory. */
static int find(const struct dcfa_host *host, const void *at, uint64_t bytes, uint64_t *ret_offset)
{
    const struct dcfa *processor = host->processor;
    const uint64_t offset = (uintptr_t)at - (uintptr_t)processor->head;
    if (offset < processor->memory_offset || offset > processor->segment_bytes ||
        bytes > processor->segment_bytes - offset)
        return error_set(-EINVAL,
                         "%" PRIu64 " bytes at %p are not in the processor's memory, which "
                         "dcfa_memory() returns",
                         bytes, at);
    *ret_offset = offset;
    return 0;
}

static int set_name(struct host_request *request, const char *name)
{
    if (strlen(name) >= sizeof(request->name))
        return error_set(-ENAMETOOLONG, "\"%s\" has more than %zu bytes", name,
                         sizeof(request->name) - 1);
    strcpy(request->name, name);
    return 0;
}

/* ---- opening and closing ---- */

static int connect_to(const char *path, int *ret_fd)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct ucred peer;
    socklen_t peer_bytes = sizeof(peer);
    if (!path)
        path = variable_text(VARIABLE_HOSTD);
    if (!path)
        return error_static(-EINVAL, "no socket of tca-hostd: set TCA_HOSTD to its path");
    if (strlen(path) >= sizeof(address.sun_path))
        return error_set(-ENAMETOOLONG, "socket path \"%s\" has more than %zu bytes", path,
                         sizeof(address.sun_path) - 1);
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    int r = fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : 0;
    if (r < 0)
        error_set(r, "connecting to tca-hostd at %s: %s", path, strerrordesc_np(-r));
    else if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_bytes) < 0 ||
             peer.uid != geteuid())
        r = error_set(-EPERM,
                      "%s belongs to another user's process, which could read this "
                      "processor's memory",
                      path);
    if (r < 0) {
        if (fd >= 0)
            close(fd);
        return r;
    }
    *ret_fd = fd;
    return 0;
}

static int join(struct dcfa_host *host, const struct dcfa_host_args *args)
{
    const struct tca_open_args wanted = {
        .group = args->group, .rank = args->rank, .size = args->size};
    struct host_request request = {.what = HOST_OPEN, .timeout_ns = args->timeout_ns};
    struct identity identity;
    int r = identity_find(&wanted, &identity);
    if (r == 0)
        r = connect_to(args->socket, &host->fd);
    if (r < 0)
        return r;
    strcpy(request.name, identity.group);
    request.rank = host->rank = identity.rank;
    request.size = host->size = identity.size;
    return (int)ask(host, &request, host->processor->segment_fd);
}

int dcfa_host_open(struct dcfa *processor, const struct dcfa_host_args *args,
                   struct dcfa_host **ret_host)
{
    static const struct dcfa_host_args defaults = {0};
    struct dcfa_host *host = calloc(1, sizeof(*host));
    if (!host)
        return error_static(-ENOMEM, "out of memory");
    host->processor = processor;
    host->fd = -1;
    int r = join(host, args ? args : &defaults);
    if (r < 0) {
        dcfa_host_close(host);
        return r;
    }
    *ret_host = host;
    return 0;
}

struct dcfa_host *dcfa_host_close(struct dcfa_host *host)
{
    if (host && host->fd >= 0)
        close(host->fd);
    free(host);
    return NULL;
}

uint32_t dcfa_host_rank(const struct dcfa_host *host)
{
    return host->rank;
}

uint32_t dcfa_host_size(const struct dcfa_host *host)
{
    return host->size;
}

/* ---- work ---- */

int64_t dcfa_host_read(struct dcfa_host *host, const char *path, uint64_t offset, void *memory,
                       uint64_t bytes)
{
    struct host_request request = {.what = HOST_READ, .count = bytes, .offset = offset};
    int r = set_name(&request, path);
    if (r == 0)
        r = find(host, memory, bytes, &request.out);
    return r < 0 ? r : ask(host, &request, -1);
}

int64_t dcfa_host_write(struct dcfa_host *host, const char *path, uint64_t offset,
                        const void *memory, uint64_t bytes)
{
    struct host_request request = {.what = HOST_WRITE, .count = bytes, .offset = offset};
    int r = set_name(&request, path);
    if (r == 0)
        r = find(host, memory, bytes, &request.in);
    return r < 0 ? r : ask(host, &request, -1);
}

int dcfa_host_allgather(struct dcfa_host *host, const void *in, uint64_t bytes, void *out)
{
    struct host_request request = {.what = HOST_ALLGATHER, .count = bytes};
    if (bytes > HOST_GATHER_BYTES)
        return error_set(-EINVAL, "%" PRIu64 " bytes of a rank: at most %d", bytes,
                         HOST_GATHER_BYTES);
    int r = find(host, in, bytes, &request.in);
    if (r == 0)
        r = find(host, out, bytes * host->size, &request.out);
    return r < 0 ? r : (int)ask(host, &request, -1);
}

static int reduce(struct dcfa_host *host, struct host_request *request, const void *in, void *out,
                  bool receives)
{
    uint64_t bytes;
    int r = tca_combine_bytes((enum tca_combine)request->combine, (enum tca_type)request->type);
    if (r < 0)
        return r;
    if (request->count == 0 || __builtin_mul_overflow(request->count, (uint64_t)r, &bytes))
        return error_set(-EINVAL, "%" PRIu64 " elements with combination %u cannot be reduced",
                         request->count, request->combine);
    r = find(host, in, bytes, &request->in);
    if (r == 0 && receives)
        r = find(host, out, bytes, &request->out);
    return r < 0 ? r : (int)ask(host, request, -1);
}

int dcfa_host_reduce(struct dcfa_host *host, const void *in, void *out, uint64_t count,
                     enum tca_type type, enum tca_combine combine, uint32_t root)
{
    struct host_request request = {
        .what = HOST_REDUCE, .count = count, .type = type, .combine = combine, .rank = root};
    return reduce(host, &request, in, out, root == host->rank);
}

int dcfa_host_allreduce(struct dcfa_host *host, const void *in, void *out, uint64_t count,
                        enum tca_type type, enum tca_combine combine)
{
    struct host_request request = {
        .what = HOST_ALLREDUCE, .count = count, .type = type, .combine = combine};
    return reduce(host, &request, in, out, true);
}

int dcfa_host_finalize(struct dcfa_host *host)
{
    struct host_request request = {.what = HOST_FINALIZE};
    return (int)ask(host, &request, -1);
}
