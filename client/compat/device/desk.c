/* Requests to agents. */
#include <stdlib.h>
#include <string.h>

#include "client/compat/device/post.h"

enum { SIZES = 3 };

static struct {
    struct tca *session;
    struct tca_region *region;        /* request, replies by agent, data */
    struct tca_handle *inlets;        /* by rank in the group */
    struct tca_plan *(*plans)[SIZES]; /* by process, for three sizes of data */
    uint64_t sequence;
} desk;

static struct post_request *request_at(void)
{
    return tca_region_address(desk.region);
}

static const struct post_reply *reply_of(uint32_t agent)
{
    return (const struct post_reply *)(request_at() + 1) + (agent - compat.size);
}

static uint64_t data_offset(void)
{
    return sizeof(struct post_request) + post.agents * (uint64_t)sizeof(struct post_reply);
}

void *desk_data(void)
{
    return (uint8_t *)tca_region_address(desk.region) + data_offset();
}

tcaresult desk_open(void)
{
    desk.plans = calloc(compat.size, sizeof(*desk.plans));
    if (!desk.plans)
        return compat_fail(TCA_ERROR_OUT_OF_MEMORY, "out of memory for %u processes", compat.size);
    int r = post_join(compat.rank, data_offset() + post.stage_bytes, &desk.session, &desk.region,
                      &desk.inlets);
    tcaresult result = TCA_SUCCESS;
    if (r < 0) {
        result = compat_fail_errno(r, "tcaInit: the group for GPU memory");
        desk_close();
    }
    return result;
}

bool desk_is_open(void)
{
    return desk.session != NULL;
}

void desk_close(void)
{
    desk.session = tca_close(desk.session);
    free(desk.plans);
    free(desk.inlets);
    desk.plans = NULL;
    desk.inlets = NULL;
}

/* ---- one plan for each process and size ---- */

static int size_of(uint64_t data_bytes, uint64_t *ret_bytes)
{
    const uint64_t sizes[SIZES] = {4 << 10, 64 << 10, post.stage_bytes};
    int i = 0;
    while (sizes[i] < data_bytes)
        i++;
    *ret_bytes = sizes[i];
    return i;
}

static int build(struct tca_plan *plan, uint32_t agent, uint64_t bytes)
{
    const uint64_t offset = compat.rank * post_inlet_bytes();
    struct tca_put put = {.source = desk.region,
                          .target = desk.inlets[agent],
                          .target_offset_bytes = offset,
                          .bytes = sizeof(struct post_request)};
    int r = tca_plan_put(plan, &put);
    if (r < 0)
        return r;
    put.source_offset_bytes = data_offset();
    put.target_offset_bytes = offset + sizeof(struct post_request);
    put.bytes = bytes;
    if ((r = tca_plan_put(plan, &put)) < 0 || (r = tca_plan_notify(plan, agent, POST_SLOT)) < 0)
        return r;
    return tca_plan_commit(plan, TCA_DEFAULT);
}

static int plan_for(uint32_t rank, uint64_t data_bytes, struct tca_plan **ret_plan)
{
    uint64_t bytes;
    struct tca_plan **plan = &desk.plans[rank][size_of(data_bytes, &bytes)];
    int r = 0;
    if (!*plan) {
        r = tca_plan_new(desk.session, &(struct tca_plan_args){.name = "tca-api GPU"}, plan);
        if (r == 0 && (r = build(*plan, (uint32_t)post.agent_of[rank], bytes)) < 0)
            *plan = tca_plan_free(*plan);
    }
    *ret_plan = *plan;
    return r;
}

static int send(uint32_t rank, const struct post_request *request, uint64_t data_bytes)
{
    struct tca_plan *plan;
    int r = plan_for(rank, data_bytes, &plan);
    if (r < 0)
        return r;
    *request_at() = *request;
    if ((r = tca_start(plan)) < 0)
        return r;
    return tca_wait(plan, TCA_FOREVER);
}

/* Skips late replies to earlier requests that failed. */
static int receive(uint32_t agent, uint64_t sequence, struct post_reply *ret_reply)
{
    do {
        int r = tca_notified_wait(desk.session, agent, POST_SLOT, TCA_FOREVER);
        if (r < 0)
            return r;
        memcpy(ret_reply, reply_of(agent), sizeof(*ret_reply));
    } while (ret_reply->sequence != sequence);
    ret_reply->text[sizeof(ret_reply->text) - 1] = 0;
    return 0;
}

tcaresult desk_ask(uint32_t rank, struct post_request *request, uint64_t data_bytes,
                   struct post_reply *ret_reply)
{
    const int32_t agent = post.agent_of[rank];
    struct post_reply reply;
    if (agent < 0)
        return compat_fail(TCA_ERROR_INVALID_VALUE,
                           "the handle names device memory of process %u, which has no GPU", rank);
    request->sequence = ++desk.sequence;
    int r = send(rank, request, data_bytes);
    if (r == 0 && request->kind != POST_STOP)
        r = receive((uint32_t)agent, request->sequence, &reply);
    if (r < 0)
        return compat_fail_errno(r, "device memory of another process");
    if (request->kind == POST_STOP)
        return TCA_SUCCESS;
    if (reply.result != TCA_SUCCESS)
        return compat_fail(reply.result > TCA_SUCCESS && reply.result <= TCA_ERROR_SYSTEM
                               ? reply.result
                               : TCA_ERROR_SYSTEM,
                           "process %u: %s", rank, reply.text);
    if (ret_reply)
        *ret_reply = reply;
    return TCA_SUCCESS;
}

void desk_pin(struct cuda_place *place)
{
    cuda_pin(place, tca_region_address(desk.region), tca_region_bytes(desk.region));
}
