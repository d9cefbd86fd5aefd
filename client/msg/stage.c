/* Long messages between ranks of a node whose data is private, or has a layout. The sender offers a
 * stage in its memory (struct msg_stage). It packs into the stage while the receiver unpacks from
 * it, each when its program calls. If the sender does not call, the receiver has the kernel copy
 * parts of private data, where it permits that, and the sender leaves them out. */
#include <errno.h>

#include "client/core/clock.h"
#include "client/core/error.h"
#include "client/core/layouts.h"
#include "client/core/wait.h"
#include "client/msg/msg.h"

enum { PART_BYTES = 32768, STAGES_MAX = 64 };

/* After this time without a new part, the sender does not call. */
static const uint64_t IDLE_NS = 20000;

/* The next part of `bytes` bytes, if so many are free, or there. */
static uint64_t part_of(const struct tca_msg_request *request, uint64_t bytes)
{
    const uint64_t left = PART_BYTES - request->moved % PART_BYTES;

    return bytes < left ? bytes : left;
}

static void wait_for_other(struct tca_msg_request *request)
{
    session_expect_help(request->msg->session, true);
    msg_list_add(&request->peer->direct->staging, request);
}

/* ---- the sender */

struct near_place msg_stage_place(struct tca_msg_request *request)
{
    struct tca_msg *msg = request->msg;
    void *memory = NULL;

    if (msg->stage_count > 0)
        memory = msg->stages[--msg->stage_count];
    else if (msg->stages_used == STAGES_MAX ||
             tca_alloc(msg->session, sizeof(struct msg_stage), &memory) < 0)
        return (struct near_place){.region = 0};
    msg->stages_used++;
    request->stage = memory;
    request->moved = 0;
    /* the offer comes later */
    atomic_store_explicit(&request->stage->packed, 0, memory_order_relaxed);
    atomic_store_explicit(&request->stage->unpacked, 0, memory_order_relaxed);
    return near_place_of(msg->session, &msg->owner, memory, sizeof(struct msg_stage));
}

static int pack(struct tca_msg_request *request)
{
    struct msg_stage *stage = request->stage;

    while (request->moved < request->room) {
        /* acquire: pairs with the release in advance() */
        const uint64_t unpacked = atomic_load_explicit(&stage->unpacked, memory_order_acquire);
        if (unpacked > request->moved && unpacked <= request->room) {
            request->moved = unpacked; /* the receiver has read it itself */
            continue;
        }
        const uint64_t free_bytes = MSG_STAGE_BYTES - (request->moved - unpacked);
        const uint64_t left = request->room - request->moved;
        if (free_bytes == 0 || free_bytes > MSG_STAGE_BYTES) /* the other rank can write anything */
            return 0;
        const uint64_t bytes = part_of(request, left < free_bytes ? left : free_bytes);
        msg_gather_part(request, stage->data + request->moved % MSG_STAGE_BYTES, request->moved,
                        bytes);
        request->moved += bytes;
        /* release: pairs with the acquire in unpack() */
        atomic_store_explicit(&stage->packed, request->moved, memory_order_release);
    }
    return 1;
}

void msg_stage_pack(struct tca_msg_request *request)
{
    if (pack(request) == 0)
        wait_for_other(request);
}

void msg_stage_end(struct tca_msg_request *request)
{
    if (request->stage && msg_list_remove(&request->peer->direct->staging, request))
        session_expect_help(request->msg->session, false);
}

void msg_stage_free(struct tca_msg_request *request)
{
    struct tca_msg *msg = request->msg;

    if (!request->stage)
        return;
    if (request->peer->failed && request->peer->failed != -EOWNERDEAD) {
        request->stage = NULL; /* the other rank may still use it: it is not used again */
        return;
    }
    msg->stages_used--;
    if (msg->stage_count < MSG_STAGES)
        msg->stages[msg->stage_count++] = request->stage;
    else
        tca_free(msg->session, request->stage);
    request->stage = NULL;
}

void msg_stages_free(struct tca_msg *msg)
{
    while (msg->stage_count > 0)
        tca_free(msg->session, msg->stages[--msg->stage_count]);
}

/* ---- the receiver */

static struct msg_stage *stage_of(const struct tca_msg_request *request)
{
    struct msg_stage *stage = near_reach(request->msg->session, &request->peer->direct->view,
                                         request->staged, sizeof(*stage));

    return (uintptr_t)stage % _Alignof(struct msg_stage) == 0 ? stage : NULL;
}

static void advance(struct tca_msg_request *request, struct msg_stage *stage, uint64_t bytes)
{
    request->moved += bytes;
    /* release: pairs with the acquire in pack() */
    atomic_store_explicit(&stage->unpacked, request->moved, memory_order_release);
}

/* Takes the parts that are there. */
static void unpack(struct tca_msg_request *request, struct msg_stage *stage)
{
    while (request->moved < request->bytes) {
        /* acquire: pairs with the release in pack() */
        const uint64_t packed = atomic_load_explicit(&stage->packed, memory_order_acquire);
        const uint64_t left = request->bytes - request->moved, here = packed - request->moved;
        if (here == 0 || here > MSG_STAGE_BYTES) /* the other rank can write anything */
            return;
        const uint64_t bytes = part_of(request, left < here ? left : here);
        msg_scatter_part(request, stage->data + request->moved % MSG_STAGE_BYTES, request->moved,
                         bytes);
        advance(request, stage, bytes);
    }
}

/* Copies the next part from where the sender has it, unless the sender packs. */
static void read_part(struct tca_msg_request *request, struct msg_stage *stage)
{
    const uint64_t now_ns = clock_now_ns();

    if (request->moved != request->seen) {
        request->seen = request->moved;
        request->idle_ns = now_ns;
    }
    if (now_ns - request->idle_ns < IDLE_NS)
        return;
    const uint64_t bytes = part_of(request, request->bytes - request->moved);
    if (msg_direct_read(request, request->source, request->moved, bytes) < 0) {
        request->source.region = 0;
        return;
    }
    advance(request, stage, bytes);
    request->seen = request->moved; /* the next one at once */
}

/* 1: the whole message is here, 0, or a negative errno: the stage is out of reach. */
static int take(struct tca_msg_request *request)
{
    struct msg_stage *stage = stage_of(request);

    if (!stage)
        return error_static(-ESTALE, "message: its data is out of reach");
    const uint64_t before = request->moved;
    unpack(request, stage);
    if (request->moved == before && request->source.region == NEAR_PRIVATE)
        read_part(request, stage);
    return request->moved == request->bytes;
}

int msg_stage_pull(struct tca_msg_request *request, const struct msg_offer *offer)
{
    request->staged = offer->stage;
    request->source = offer->place;
    request->moved = 0;
    request->seen = UINT64_MAX;
    int r = take(request);
    if (r < 0)
        return 0;
    if (r == 0) {
        wait_for_other(request);
        return 1;
    }
    r = msg_tell_taken(request, 0);
    return r < 0 ? r : 1;
}

/* ---- both */

static int move(struct tca_msg_request *request)
{
    return request->sends ? pack(request) : take(request);
}

int msg_stage_progress(struct msg_direct *direct)
{
    struct msg_list before = direct->staging;
    struct tca_msg_request *request;
    int r = 0;

    direct->staging.first = NULL;
    while ((request = msg_list_take(&before))) {
        const int done = r < 0 ? 0 : move(request);
        if (done == 0) {
            msg_list_add(&direct->staging, request);
            continue;
        }
        session_expect_help(request->msg->session, false);
        if (!request->sends) /* a send waits for the answer */
            r = msg_tell_taken(request, done < 0 ? done : 0);
    }
    return r;
}

void msg_stage_forget(struct msg_direct *direct)
{
    struct tca_msg_request *request;

    while (direct && (request = msg_list_take(&direct->staging)))
        session_expect_help(request->msg->session, false);
}
