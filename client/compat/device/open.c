/* Finds out which processes have GPUs, and forms the group of their agents. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "client/compat/device/post.h"

/* For all inlets of an agent together, unless this is less than the minimum per inlet. */
#define STAGE_OF_ALL    (32ull << 20)
#define STAGE_MAX       (1ull << 20)
#define STAGE_MIN       (64ull << 10)
#define OPEN_TIMEOUT_NS (60ll * 1000 * 1000 * 1000)

struct post post;
static bool ready;

bool device_ready(void)
{
    return ready;
}

/* ---- this process ---- */

/* Loads the driver as TCA_CUDA says: auto, on or off. */
static tcaresult look_for_driver(void)
{
    char why[256] = "";
    const char *wish = getenv("TCA_CUDA");
    if (!wish || !wish[0])
        wish = "auto";
    if (strcmp(wish, "off") == 0)
        return TCA_SUCCESS;
    if (strcmp(wish, "auto") != 0 && strcmp(wish, "on") != 0)
        return compat_fail(TCA_ERROR_INVALID_VALUE,
                           "TCA_CUDA is \"%s\": it must be auto, on or off", wish);
    enum cuda_state state = cuda_open(why, sizeof(why));
    ready = state == CUDA_READY;
    if (!ready && strcmp(wish, "on") == 0)
        return compat_fail(TCA_ERROR_NOT_SUPPORTED, "TCA_CUDA is \"on\", but %s", why);
    if (state == CUDA_UNUSABLE)
        fprintf(stderr, "tcaInit: tcaMemoryGPU is host memory: %s (TCA_CUDA=off silences this)\n",
                why);
    return TCA_SUCCESS;
}

/* ---- all processes ---- */

struct introduction {
    uint64_t has_gpu;
    uint64_t lot; /* random; that of process 0 names the group */
};

static void count_agents(const struct introduction *all)
{
    post.agents = 0;
    for (uint32_t i = 0; i < compat.size; i++)
        post.agent_of[i] = all[i].has_gpu ? (int32_t)(compat.size + post.agents++) : -1;
}

static int introduce(void)
{
    struct introduction own = {.has_gpu = ready};
    struct introduction *all = calloc(compat.size, sizeof(*all));
    post.agent_of = calloc(compat.size, sizeof(*post.agent_of));
    if (!all || !post.agent_of || getrandom(&own.lot, sizeof(own.lot), 0) != sizeof(own.lot)) {
        free(all);
        return -ENOMEM;
    }
    int r = tca_allgather(compat.session, &own, sizeof(own), all, TCA_DEFAULT);
    if (r == 0) {
        count_agents(all);
        snprintf(post.group, sizeof(post.group), "tca-api-gpu-%016llx",
                 (unsigned long long)all[0].lot);
    }
    free(all);
    return r;
}

static void choose_stage(void)
{
    post.stage_bytes = STAGE_MAX;
    while (post.stage_bytes > STAGE_MIN && post.stage_bytes * compat.size > STAGE_OF_ALL)
        post.stage_bytes /= 2;
}

int post_join(uint32_t rank, uint64_t bytes, struct tca **ret_session,
              struct tca_region **ret_region, struct tca_handle **ret_handles)
{
    const char *timeout = getenv("TCA_TIMEOUT");
    const struct tca_open_args args = {.group = post.group,
                                       .rank = rank,
                                       .size = post_ranks(),
                                       .timeout_ns = timeout && timeout[0] ? 0 : OPEN_TIMEOUT_NS};
    struct tca_handle own, *all = calloc(post_ranks(), sizeof(*all));
    int r = all ? tca_open(&args, ret_session) : -ENOMEM;
    if (r == 0 && (r = tca_region_alloc(*ret_session, bytes, ret_region)) == 0 &&
        (r = tca_region_handle(*ret_region, 0, TCA_ALL, &own)) == 0)
        r = tca_allgather(*ret_session, &own, sizeof(own), all, TCA_DEFAULT);
    if (r < 0)
        free(all);
    else
        *ret_handles = all;
    return r;
}

tcaresult device_open(void)
{
    tcaresult result = look_for_driver();
    if (result != TCA_SUCCESS)
        return result;
    int r = introduce();
    if (r < 0)
        return compat_fail_errno(r, "tcaInit: finding processes with a GPU");
    if (post.agents == 0)
        return TCA_SUCCESS;
    choose_stage();
    if (ready && (result = agent_start()) != TCA_SUCCESS)
        return result;
    result = desk_open();
    if (ready) {
        tcaresult agents = agent_started();
        result = result == TCA_SUCCESS ? agents : result;
    }
    return result;
}

void device_close(void)
{
    struct post_request stop = {.kind = POST_STOP};
    if (ready && desk_is_open() && desk_ask(compat.rank, &stop, 0, NULL) == TCA_SUCCESS)
        agent_join();
}
