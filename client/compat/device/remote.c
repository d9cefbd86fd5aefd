#include "client/compat/device/remote.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/compat/device/post.h"

static struct remote *remotes;

/* A socket for receiving a descriptor; the kernel chooses its abstract name of five characters. */
static int open_socket(char ret_name[12])
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t length = sizeof(address);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (bind(fd, (struct sockaddr *)&address, sizeof(address.sun_family)) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &length) < 0 ||
        length > offsetof(struct sockaddr_un, sun_path) + 1 + 11) {
        close(fd);
        return -EIO;
    }
    memset(ret_name, 0, 12);
    memcpy(ret_name, address.sun_path + 1, length - offsetof(struct sockaddr_un, sun_path) - 1);
    return fd;
}

/* Receives the descriptor with this ticket. Any process can send to the socket; other descriptors
 * are closed. */
static int receive_descriptor(int socket, uint64_t ticket)
{
    for (;;) {
        uint64_t got = 0;
        int fd = -1;
        union {
            struct cmsghdr header;
            char room[CMSG_SPACE(sizeof(fd))];
        } control;
        struct iovec vector = {.iov_base = &got, .iov_len = sizeof(got)};
        struct msghdr message = {.msg_iov = &vector,
                                 .msg_iovlen = 1,
                                 .msg_control = &control,
                                 .msg_controllen = sizeof(control)};
        ssize_t bytes = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (bytes < 0)
            return -errno;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
            header->cmsg_len == CMSG_LEN(sizeof(fd)))
            memcpy(&fd, CMSG_DATA(header), sizeof(fd));
        if (fd >= 0 && bytes == sizeof(got) && got == ticket)
            return fd;
        if (fd >= 0)
            close(fd);
    }
}

/* Requests the descriptor. */
static int fetch(const struct reference *target, uint64_t *ret_bytes)
{
    struct post_request request = {.kind = POST_EXPORT, .memory = target->device};
    struct post_reply reply;
    int fd = -ENODATA;
    if (getrandom(&request.ticket, sizeof(request.ticket), 0) != sizeof(request.ticket))
        return -EIO;
    int socket = open_socket(request.socket);
    if (socket < 0)
        return socket;
    if (desk_ask(target->rank, &request, 0, &reply) == TCA_SUCCESS) {
        fd = receive_descriptor(socket, request.ticket);
        *ret_bytes = reply.bytes;
    }
    close(socket);
    return fd;
}

static struct remote *find(const struct reference *target, const struct cuda_place *place)
{
    struct remote *remote = remotes;
    while (remote && (remote->rank != target->rank || remote->number != target->device ||
                      remote->cuda.place != place))
        remote = remote->next;
    return remote;
}

static bool import(struct remote *remote, const struct reference *target, struct cuda_place *place)
{
    uint64_t bytes = 0;
    int fd = fetch(target, &bytes);
    if (fd < 0)
        return false;
    bool good = cuda_memory_import(place, fd, bytes, &remote->cuda) == TCA_SUCCESS;
    close(fd);
    return good;
}

struct remote *remote_take(const struct reference *target, struct cuda_place *place)
{
    uint64_t end;
    struct remote *remote = find(target, place);
    if (!remote) {
        remote = calloc(1, sizeof(*remote));
        if (!remote || !import(remote, target, place)) {
            free(remote);
            return NULL;
        }
        remote->rank = target->rank;
        remote->number = target->device;
        remote->next = remotes;
        remotes = remote;
    }
    remote->users++;
    if (__builtin_add_overflow(target->device_offset_bytes, target->bytes, &end) ||
        end > remote->cuda.bytes) { /* not a handle of this library: the agent will reject it */
        remote_give(remote);
        return NULL;
    }
    return remote;
}

void remote_give(struct remote *remote)
{
    if (!remote || --remote->users > 0)
        return;
    struct remote **link = &remotes;
    while (*link != remote)
        link = &(*link)->next;
    *link = remote->next;
    cuda_memory_free(&remote->cuda);
    free(remote);
}
