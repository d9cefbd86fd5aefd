/*
 * Commits of plans against the daemon's own parser. An accepted plan must have what the rest of the
 * daemon relies on: every layout fits its memory, every index its table; a refused one has an error
 * text. The input is a Message that holds a PlanCommit; empty layouts and handles in it are filled
 * in, so that mutations of the rest get past the first check.
 */
#include <string.h>
#include <sys/mman.h>

#include "config/cluster.h"
#include "daemon/base/loop.h"
#include "daemon/plans/plan_internal.h"
#include "daemon/rails/rails.h"
#include "daemon/sessions/client_request.h"
#include "daemon/sessions/region.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"
#include "proto/limits.h"
#include "tests/fuzz/fuzz.h"

enum { SOURCES = 4, REGION_BYTES = 1 << 20, NODES = 2 };

/* ---- the parts of a daemon that the parser uses ---- */

static struct cluster_node nodes[NODES] = {{.id = 0, .name = (char *)"here"},
                                           {.id = 7, .name = (char *)"there"}};
static struct cluster cluster = {.nodes = nodes, .count = NODES};
static struct tcad_conf conf = {
    .control.request_timeout_ns = 1000000000,
    .memory = {.base = 1ull << 40, .reserved_bytes = 1 << 30},
    .limits = {.steps_per_session = 1 << 20,
               .plan_bytes_per_session = 64 << 20,
               .bytes_per_user = 1 << 30,
               .bytes = 1 << 30},
    .cluster = &cluster,
};
static struct rails rails = {
    .count = 1, .last = 1, .at = {[1] = {.name = "shm", .driver = DRIVER_SHM, .open = true}}};
static struct tcad tcad = {.conf = &conf, .cluster = &cluster, .rails = &rails};
static struct members members = {.uses = 1,
                                 .size = SOURCES,
                                 .list = {{.node = 0, .session = 1},
                                          {.node = 0, .session = 2},
                                          {.node = 7, .session = 1},
                                          {.node = 7, .session = 9}}};
static struct region region = {.tcad = &tcad, .id = 5, .bytes = REGION_BYTES, .fd = -1, .refs = 1};
static struct session session = {
    .tcad = &tcad, .id = 1, .sources = SOURCES, .size = SOURCES, .members = &members};

static void open_once(void)
{
    if (tcad.regions)
        return;
    FUZZ_REQUIRE(regions_new(&tcad, &tcad.regions) == 0);
    FUZZ_REQUIRE(loop_new(&tcad.loop) == 0);
    session.lines.segment = mmap(NULL, NOTIFY_SEGMENT_BYTES, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    FUZZ_REQUIRE(session.lines.segment != MAP_FAILED);
    region_add(&session, &region);
}

static ProtobufCBinaryData copy(const void *data, size_t bytes)
{
    uint8_t *mine = malloc(bytes);
    FUZZ_REQUIRE(mine);
    memcpy(mine, data, bytes);
    return (ProtobufCBinaryData){bytes, mine};
}

static void fill_layout(ProtobufCBinaryData *data)
{
    struct layout *layout;
    if (data->len > 0)
        return;
    FUZZ_REQUIRE(layout_contiguous(4096, &layout) == 0);
    *data = copy(layout, layout_bytes(layout));
    free(layout);
}

static void fill_in(Tca__PlanCommit *commit)
{
    for (size_t i = 0; i < commit->n_chains; i++) {
        for (size_t j = 0; j < commit->chains[i]->n_steps; j++) {
            Tca__Step *step = commit->chains[i]->steps[j];
            if (step->step_case != TCA__STEP__STEP_PUT)
                continue;
            fill_layout(&step->put->source_layout);
            if (j % 3) /* else it is the source's */
                fill_layout(&step->put->target_layout);
            if (step->put->handle.len == 0) {
                struct handle handle = {
                    .node = j % 2 ? 7 : 0, .region = 5, .length_bytes = REGION_BYTES};
                uint8_t bytes[HANDLE_BYTES];
                handle_encode(&handle, bytes);
                step->put->handle = copy(bytes, sizeof(bytes));
            }
        }
    }
}

/* ---- what must hold ---- */

static void check_transfer(const struct plan *plan, const struct plan_transfer *transfer)
{
    FUZZ_REQUIRE(transfer->plan == plan && (transfer->has_target || transfer->notify));
    FUZZ_REQUIRE(transfer->node == 0 || transfer->node == 7);
    if (transfer->notify)
        FUZZ_REQUIRE(transfer->rank < SOURCES &&
                     members.list[transfer->rank].node == transfer->node);
    if (!transfer->has_target)
        return;
    const char *why;
    FUZZ_REQUIRE(transfer->source == &region && transfer->handle.node == transfer->node);
    FUZZ_REQUIRE(
        layout_check(transfer->source_layout, layout_bytes(transfer->source_layout), &why) == 0);
    FUZZ_REQUIRE(
        layout_check(transfer->target_layout, layout_bytes(transfer->target_layout), &why) == 0);
    FUZZ_REQUIRE(transfer->source_layout->size_bytes == transfer->target_layout->size_bytes);
    FUZZ_REQUIRE(transfer->target_layout->size_bytes <= transfer->handle.length_bytes);
    FUZZ_REQUIRE(layout_fits(transfer->source_layout, transfer->source_offset, REGION_BYTES));
    FUZZ_REQUIRE(layout_fits(transfer->target_layout, transfer->target_offset,
                             transfer->handle.length_bytes));
}

static void check_plan(const struct plan *plan)
{
    uint32_t steps = 0, transfers = 0;
    FUZZ_REQUIRE(plan->channel < CHANNELS && !(plan->wanted_rails >> 2) &&
                 plan->wanted_seat < SEAT_COUNT);
    FUZZ_REQUIRE(plan->chain_count <= PLAN_CHAINS_MAX && plan->step_count <= PLAN_STEPS_MAX);
    FUZZ_REQUIRE(memchr(plan->name, '\0', sizeof(plan->name)));
    for (uint32_t i = 0; i < plan->chain_count; i++) {
        const struct plan_chain *chain = &plan->chains[i];
        FUZZ_REQUIRE(chain->steps == plan->steps + steps && chain->step_count > 0);
        steps += chain->step_count;
        for (uint32_t j = 0; j < chain->step_count; j++) {
            const struct plan_step *step = &chain->steps[j];
            if (step->is_wait)
                FUZZ_REQUIRE(step->rank < SOURCES && step->line < session.lines.count);
            else
                FUZZ_REQUIRE(step->transfer == transfers++);
        }
    }
    FUZZ_REQUIRE(steps == plan->step_count && transfers == plan->transfer_count);
    for (uint32_t i = 0; i < plan->transfer_count; i++)
        check_transfer(plan, &plan->transfers[i]);
}

/* Takes ownership of the message. */
static void parse(Tca__Message *message)
{
    struct plan *plan = calloc(1, sizeof(*plan));
    struct client_request *request = calloc(1, sizeof(*request));
    FUZZ_REQUIRE(plan && request);
    request->message = message;
    request->fd = -1;
    *plan = (struct plan){
        .tcad = &tcad, .session = &session, .request = request, .state = PLAN_PARSING};
    fill_in(message->plan_commit);
    plan->pending = 1; /* it is not to walk on */
    plan_do_parse(plan);
    loop_finish_posts(tcad.loop);
    FUZZ_REQUIRE(plan->pending == 1);
    const struct plan_attempt *attempt = &plan->attempt;
    FUZZ_REQUIRE(plan->error == 0 && attempt->error <= 0 &&
                 (attempt->error < 0) == (attempt->text[0] != '\0'));
    if (attempt->error == 0)
        check_plan(plan);
    FUZZ_REQUIRE(session.step_count == plan->held_steps &&
                 session.plan_bytes == plan->memory_bytes);
    session.step_count = session.plan_bytes = 0;
    plan_free(plan);
    charge_drop(&session.charge);
    lines_deinit(&session.lines);
    session.lines = (struct lines){.segment = session.lines.segment};
    FUZZ_REQUIRE(region.refs == 1 && region.puts_from == 0);
    FUZZ_REQUIRE(tcad.users.total == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    open_once();
    Tca__Message *message = tca__message__unpack(NULL, bytes, data);
    if (message && message->body_case == TCA__MESSAGE__BODY_PLAN_COMMIT)
        parse(message);
    else if (message)
        tca__message__free_unpacked(message, NULL);
    return 0;
}
