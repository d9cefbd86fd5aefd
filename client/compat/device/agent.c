/* The agent: handles requests of other processes for this process's device memory. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/compat/device/post.h"
#include "client/compat/thread.h"

static struct {
    pthread_t thread;
    bool running;
    /* written by the program's thread, read when it waits for the agent's end */
    struct cuda_place *pinned;
    /* under the lock, for agent_started() */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool met;
    tcaresult result;
    char text[256];
    /* used by the agent's thread only, except the region's address after the start */
    struct tca *session;
    struct tca_region *region; /* inlets by process, then replies by process */
    struct tca_handle *desks;
    struct tca_plan **plans; /* replies, by process */
    uint64_t *served;        /* the last request served, by process */
} agent = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static uint8_t *inlet_of(uint32_t rank)
{
    return (uint8_t *)tca_region_address(agent.region) + rank * post_inlet_bytes();
}

static struct post_reply *reply_of(uint32_t rank)
{
    return (struct post_reply *)inlet_of(compat.size) + rank;
}

/* ---- serving ---- */

static bool fits(const struct post_request *request, uint64_t bytes)
{
    uint64_t data, end;
    return request->width_bytes > 0 && request->height > 0 &&
           !__builtin_mul_overflow(request->width_bytes, request->height, &data) &&
           data <= post.stage_bytes &&
           !__builtin_mul_overflow(request->height - 1, request->pitch_bytes, &end) &&
           !__builtin_add_overflow(end, request->width_bytes, &end) &&
           !__builtin_add_overflow(end, request->offset_bytes, &end) && end <= bytes;
}

static tcaresult store(struct device_memory *memory, const struct post_request *request,
                       const uint8_t *data)
{
    if (!fits(request, memory->cuda.bytes))
        return compat_fail(
            TCA_ERROR_INVALID_VALUE,
            "%llu x %llu bytes at offset %llu exceed the %llu bytes of the memory",
            (unsigned long long)request->height, (unsigned long long)request->width_bytes,
            (unsigned long long)request->offset_bytes, (unsigned long long)memory->cuda.bytes);
    const struct cuda_side to = {.on_device = true,
                                 .address = memory->cuda.address + request->offset_bytes,
                                 .pitch_bytes = request->pitch_bytes};
    const struct cuda_side from = {.address = (uint64_t)(uintptr_t)data,
                                   .pitch_bytes = request->width_bytes};
    return cuda_copy(memory->cuda.place, &to, &from, request->width_bytes, request->height);
}

/* Sends a descriptor to the process that has requested it and waits for this ticket. */
static int send_descriptor(const struct post_request *request, int fd)
{
    uint64_t ticket = request->ticket;
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(fd))];
    } control = {.header = {.cmsg_len = CMSG_LEN(sizeof(fd)),
                            .cmsg_level = SOL_SOCKET,
                            .cmsg_type = SCM_RIGHTS}};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const size_t length = strnlen(request->socket, sizeof(request->socket) - 1);
    struct iovec vector = {.iov_base = &ticket, .iov_len = sizeof(ticket)};
    struct msghdr message = {.msg_name = &address,
                             .msg_namelen =
                                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length),
                             .msg_iov = &vector,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};
    memcpy(address.sun_path + 1, request->socket, length);
    memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
    int sender = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (sender < 0)
        return -errno;
    int r = sendmsg(sender, &message, MSG_NOSIGNAL) < 0 ? -errno : 0;
    close(sender);
    return r;
}

static tcaresult export(struct device_memory *memory, const struct post_request *request,
                        struct post_reply *reply)
{
    int fd;
    tcaresult result = cuda_memory_export(&memory->cuda, &fd);
    if (result != TCA_SUCCESS)
        return result;
    int r = send_descriptor(request, fd);
    close(fd);
    reply->bytes = memory->cuda.bytes;
    return r < 0 ? compat_fail(TCA_ERROR_SYSTEM, "cannot send a descriptor: %s", strerror(-r))
                 : TCA_SUCCESS;
}

static tcaresult answer(const struct post_request *request, const uint8_t *data,
                        struct post_reply *reply)
{
    struct device_memory *memory = device_take(request->memory);
    tcaresult result;
    if (!memory)
        return compat_fail(TCA_ERROR_INVALID_VALUE,
                           "the device memory that the handle names was freed");
    if (memory->cuda.kind == CUDA_FOREIGN && !cuda_memory_same(&memory->cuda))
        result = compat_fail(TCA_ERROR_INVALID_VALUE,
                             "the program has freed the device memory that the handle names");
    else if (request->kind == POST_STORE)
        result = store(memory, request, data);
    else if (request->kind == POST_EXPORT)
        result = export(memory, request, reply);
    else
        result = compat_fail(TCA_ERROR_INVALID_VALUE, "request of unknown kind %u", request->kind);
    device_give(memory);
    return result;
}

/* ---- replies ---- */

static int make_plan(uint32_t rank)
{
    const struct tca_put put = {
        .source = agent.region,
        .source_offset_bytes =
            (uint64_t)((uint8_t *)reply_of(rank) - (uint8_t *)tca_region_address(agent.region)),
        .target = agent.desks[rank],
        .target_offset_bytes = sizeof(struct post_request) +
                               (uint64_t)((uint32_t)post.agent_of[compat.rank] - compat.size) *
                                   sizeof(struct post_reply),
        .bytes = sizeof(struct post_reply)};
    struct tca_plan *plan;
    int r =
        tca_plan_new(agent.session, &(struct tca_plan_args){.name = "tca-api GPU reply"}, &plan);
    if (r < 0)
        return r;
    if ((r = tca_plan_put(plan, &put)) == 0 && (r = tca_plan_notify(plan, rank, POST_SLOT)) == 0)
        r = tca_plan_commit(plan, TCA_DEFAULT);
    if (r < 0)
        tca_plan_free(plan);
    else
        agent.plans[rank] = plan;
    return r;
}

/* If the reply cannot be sent, the process has ended, or its next request will report the lost
 * rail. */
static void send_reply(uint32_t rank, const struct post_reply *reply)
{
    if (!agent.plans[rank] && make_plan(rank) < 0)
        return;
    tca_wait(agent.plans[rank], TCA_DEFAULT);
    *reply_of(rank) = *reply;
    if (tca_start(agent.plans[rank]) == 0)
        tca_wait(agent.plans[rank], TCA_DEFAULT);
}

/* Returns false if the agent is to stop. */
static bool serve(uint32_t rank)
{
    struct post_request request;
    struct post_reply reply = {0};
    memcpy(&request, inlet_of(rank), sizeof(request));
    request.socket[sizeof(request.socket) - 1] = 0;
    if (request.sequence <= agent.served[rank])
        return true; /* a second notification: the start had failed and was repeated */
    agent.served[rank] = request.sequence;
    if (request.kind == POST_STOP && rank == compat.rank)
        return false;
    reply.sequence = request.sequence;
    reply.result = answer(&request, inlet_of(rank) + sizeof(request), &reply);
    if (reply.result != TCA_SUCCESS) {
        const char *text =
            strchr(tcaGetErrorString(reply.result), ':'); /* after the result's name */
        strncpy(reply.text, text ? text + 2 : "", sizeof(reply.text) - 1);
    }
    send_reply(rank, &reply);
    return true;
}

/* ---- the thread ---- */

static int meet(void)
{
    const uint64_t bytes = compat.size * (post_inlet_bytes() + (uint64_t)sizeof(struct post_reply));
    agent.plans = calloc(compat.size, sizeof(struct tca_plan *));
    agent.served = calloc(compat.size, sizeof(*agent.served));
    if (!agent.plans || !agent.served)
        return -ENOMEM;
    return post_join((uint32_t)post.agent_of[compat.rank], bytes, &agent.session, &agent.region,
                     &agent.desks);
}

static void report(int r)
{
    pthread_mutex_lock(&agent.lock);
    agent.met = true;
    agent.result = r < 0 ? compat_fail_errno(r, "the agent for GPU memory") : TCA_SUCCESS;
    strncpy(agent.text, r < 0 ? tcaGetErrorString(agent.result) : "", sizeof(agent.text) - 1);
    pthread_cond_signal(&agent.changed);
    pthread_mutex_unlock(&agent.lock);
}

static void *run(void *unused)
{
    uint32_t rank;
    int r = meet();
    report(r);
    while (r == 0) {
        r = tca_notified_wait_any(agent.session, POST_SLOT, TCA_FOREVER, &rank);
        if (r == 0 && rank < compat.size && !serve(rank))
            break;
    }
    if (agent.pinned)
        cuda_unpin(agent.pinned, tca_region_address(agent.region));
    tca_close(agent.session);
    free(agent.plans);
    free(agent.served);
    free(agent.desks);
    return NULL;
}

tcaresult agent_start(void)
{
    if (agent.running)
        return compat_fail(TCA_ERROR_SYSTEM, "the agent of a failed tcaInit() is still running");
    int r = compat_thread(&agent.thread, run);
    agent.running = r == 0;
    return r < 0 ? compat_fail(TCA_ERROR_SYSTEM, "cannot create a thread for GPU memory: %s",
                               strerror(-r))
                 : TCA_SUCCESS;
}

tcaresult agent_started(void)
{
    pthread_mutex_lock(&agent.lock);
    while (!agent.met)
        pthread_cond_wait(&agent.changed, &agent.lock);
    pthread_mutex_unlock(&agent.lock);
    return agent.result == TCA_SUCCESS ? TCA_SUCCESS : compat_fail_as(agent.result, agent.text);
}

void agent_join(void)
{
    if (agent.running)
        pthread_join(agent.thread, NULL);
    agent.running = false;
}

void agent_pin(struct cuda_place *place)
{
    if (agent.running &&
        cuda_pin(place, tca_region_address(agent.region), tca_region_bytes(agent.region)))
        agent.pinned = place;
}
