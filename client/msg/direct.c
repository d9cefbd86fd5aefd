/* Messages between ranks of a node that copy straight from and to each other's memory. A receive in
 * a region that is posted first is announced (client/msg/announce.h), and the sender copies;
 * otherwise the sender offers the place of its data, and the receiver copies. What is not in a
 * region, or has a layout, is offered in staging, or by a stage (client/msg/stage.c): two copies
 * that processors make take less time than one by the kernel. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/core/clock.h"
#include "client/core/error.h"
#include "client/msg/msg.h"

/* For longer ones, plans share the copying between both ranks, and choose how to copy by trial. But
 * a plan takes about a millisecond to make: only for what is sent again. */
enum { COPY_BYTES_MAX = 65536 };

/* Of all messages that wait for their receives: the rest of the quota is the program's. */
enum { STAGED_IN_ALL_MAX = 4194304 };
/* Of a layout, at a time. */
enum { PART_BYTES = 65536 };

/* For how long a sender is waited for that copies to a receive which fails: it may be stopped. */
static const uint64_t COPY_LIMIT_NS = 1000000000;

static struct near_place place_of(const struct tca_msg_request *request)
{
    return near_place_of(request->msg->session, &request->msg->owner, request->address,
                         request->room);
}

static bool is_in_region(const struct tca_msg_request *request)
{
    return !request->layout && place_of(request).region != NEAR_PRIVATE;
}

bool msg_direct_is_planned(const struct tca_msg_request *request)
{
    if (request->room <= COPY_BYTES_MAX || !is_in_region(request))
        return false;
    const uint64_t what =
        ((uint64_t)(uintptr_t)request->address + request->room) * UINT64_C(0x9e3779b97f4a7c15) ^
        request->peer->rank;
    uint64_t *place = &request->msg->long_sends[(what >> 32) % MSG_CACHE];
    const bool repeated = *place == what;

    *place = what;
    return repeated;
}

/* Before the first message to the other rank: what it announces counts from then on. */
static int begin(struct msg_peer *peer)
{
    if (peer->direct)
        return 0;
    struct msg_direct *direct = aligned_alloc(_Alignof(struct msg_direct), sizeof(*direct));
    if (!direct)
        return error_static(-ENOMEM, "message: out of memory");
    memset(direct, 0, sizeof(*direct));
    direct->forecast.page = &peer->here->announced;
    direct->waiting_last = &direct->waiting;
    peer->direct = direct;
    return 0;
}

/* Maps the other rank's areas. */
static bool reach(struct msg_peer *peer, struct tca_msg *msg)
{
    struct msg_direct *direct = peer->direct;

    if (direct->there || direct->unreachable)
        return direct->there;
    uint8_t *there = near_map(msg->session, &peer->area, peer->area_bytes + sizeof(struct msg_area),
                              &direct->areas);
    direct->unreachable = !there;
    if (!there)
        return false;
    direct->there = (struct msg_area *)(there + peer->area_bytes);
    direct->view.directory = &((struct msg_areas *)there)->directory;
    direct->view.owner_pid = near_owner_pid(msg->session, direct->areas, peer->session_rank);
    direct->announcer.page = &direct->there->announced;
    return true;
}

int tca_msg_reaches(struct tca_msg *msg, uint32_t rank)
{
    int r = msg_check_rank(msg, rank, false);

    if (r < 0)
        return r;
    struct msg_peer *peer = &msg->peers[rank];
    if (!peer->copies)
        return error_set(-EOPNOTSUPP,
                         "messages to and from rank %u: their plans copy, because it is %s", rank,
                         rank == group_rank(msg->session, msg->args.group) ? "this rank"
                         : peer->near ? "on this node, but a rail or tcad's seat is requested"
                                      : "on another node");
    if ((r = begin(peer)) < 0 || !reach(peer, msg))
        return r < 0 ? r : -EOPNOTSUPP;
    return near_check_private(&peer->direct->view);
}

uint8_t *msg_direct_ring(struct msg_peer *peer, struct tca_msg *msg)
{
    if (begin(peer) < 0 || !reach(peer, msg))
        return NULL;
    return peer->direct->there->packets[0];
}

void msg_direct_free(struct msg_peer *peer, struct tca_msg *msg)
{
    struct msg_direct *direct = peer->direct;

    if (!direct)
        return;
    msg_stage_forget(direct);
    near_view_end(msg->session, &direct->view);
    near_unmap(msg->session, direct->areas);
    free(direct);
    peer->direct = NULL;
}

/* ---- receives */

static void stop_waiting(struct msg_direct *direct, struct tca_msg_request *request)
{
    *request->announce_link = request->announce_next;
    if (request->announce_next)
        request->announce_next->announce_link = request->announce_link;
    else
        direct->waiting_last = request->announce_link;
    request->announce_link = NULL;
}

static bool announce_one(struct tca_msg_request *request)
{
    struct msg_peer *peer = request->peer;
    const struct announcement announcement = {.context = request->context,
                                              .tag = request->tag,
                                              .seen = peer->taken,
                                              .place = request->layout ||
                                                               request->room <= TCA_MSG_EAGER_BYTES
                                                           ? (struct near_place){.region = 0}
                                                           : place_of(request),
                                              .bytes = request->room};

    request->word = announce_make(&peer->direct->announcer, &announcement);
    if (request->word < 0)
        return false;
    stop_waiting(peer->direct, request);
    peer->direct->announced[request->word] = request;
    return true;
}

/* Short receives are announced only before a long one: their messages are sent as packets anyway.
 * While a receive from any rank is posted, what is posted after it must not be known. */
void msg_announce(struct tca_msg_request *request)
{
    struct msg_peer *peer = request->peer;
    struct tca_msg *msg = request->msg;

    if (!peer->direct && begin(peer) < 0) {
        peer->copies = false; /* nothing after it may be announced, even with memory again */
        return;
    }
    struct msg_direct *direct = peer->direct;
    request->announce_next = NULL;
    request->announce_link = direct->waiting_last;
    *direct->waiting_last = request;
    direct->waiting_last = &request->announce_next;
    if (request->room <= TCA_MSG_EAGER_BYTES || match_any_rank_waits(&msg->matching) ||
        !reach(peer, msg))
        return;
    while (direct->waiting && announce_one(direct->waiting))
        ;
}

/* It is not announced any more, and will not be. */
static void forget(struct tca_msg_request *request)
{
    if (request->word >= 0)
        request->peer->direct->announced[request->word] = NULL;
    else if (request->announce_link)
        stop_waiting(request->peer->direct, request);
    request->word = -1;
}

void msg_unannounce(struct tca_msg_request *request)
{
    if (request->word >= 0)
        announce_end(&request->peer->direct->announcer, (uint32_t)request->word, false);
    forget(request);
}

bool msg_announce_withdraw(struct tca_msg_request *request)
{
    if (request->word >= 0 &&
        !announce_withdraw(&request->peer->direct->announcer, (uint32_t)request->word))
        return false;
    forget(request);
    return true;
}

void msg_announce_settle(const struct tca_msg_request *request)
{
    const uint64_t end_ns = clock_now_ns() + COPY_LIMIT_NS;

    for (uint64_t round = 0;
         !announce_is_copied(&request->peer->direct->announcer, (uint32_t)request->word) &&
         clock_now_ns() < end_ns;
         round++)
        tca_pause(round);
}

int msg_take_placed(struct msg_peer *peer, const struct msg_head *head, uint64_t bytes)
{
    struct msg_direct *direct = peer->direct;
    struct tca_msg_request *request =
        direct && head->index < ANNOUNCE_WORDS ? direct->announced[head->index] : NULL;

    if (!request || (uint32_t)direct->announcer.numbers[head->index] != head->request ||
        bytes > request->room)
        return error_set(-EPROTO, "%llu bytes for a receive that was not announced",
                         (unsigned long long)bytes);
    announce_end(&direct->announcer, head->index, true);
    forget(request);
    match_withdraw(&request->msg->matching, &request->posted);
    request->tag = head->tag;
    request->bytes = bytes;
    msg_done(request, 0);
    return 0;
}

int msg_direct_read(struct tca_msg_request *request, struct near_place place, uint64_t position,
                    uint64_t bytes)
{
    struct near_view *view = &request->peer->direct->view;

    place.offset += position;
    if (!request->layout)
        return near_read_private(view, place, (uint8_t *)request->address + position, bytes);
    uint8_t *part = malloc(bytes);
    if (!part)
        return error_static(-ENOMEM, "message: out of memory");
    const int r = near_read_private(view, place, part, bytes);
    if (r >= 0)
        msg_scatter_part(request, part, position, bytes);
    free(part);
    return r;
}

/* The message of a private place, by the kernel. */
static int pull_private(struct tca_msg_request *request, struct near_place place)
{
    int r = 0;

    for (uint64_t done = 0; r >= 0 && done < request->bytes;) {
        const uint64_t left = request->bytes - done, bytes = left < PART_BYTES ? left : PART_BYTES;
        r = msg_direct_read(request, place, done, bytes);
        done += bytes;
    }
    return r >= 0;
}

/* The message of any place. False: out of reach. */
static bool pull(struct tca_msg_request *request, struct near_place place)
{
    if (place.region == NEAR_PRIVATE)
        return pull_private(request, place);
    const void *data =
        near_reach(request->msg->session, &request->peer->direct->view, place, request->bytes);
    if (data)
        msg_scatter(request, data, request->bytes);
    return data;
}

int msg_direct_pull(struct tca_msg_request *request, const struct msg_offer *offer)
{
    struct msg_peer *peer = request->peer;
    int r;

    if ((offer->planned && is_in_region(request)) || !peer->copies || begin(peer) < 0 ||
        !reach(peer, request->msg))
        return 0;
    if (offer->stage.region != 0 && (r = msg_stage_pull(request, offer)) != 0)
        return r;
    if (offer->place.region == 0 || !pull(request, offer->place))
        return 0;
    r = msg_tell_taken(request, 0);
    return r < 0 ? r : 1;
}

/* ---- sends */

/* The place of a copy of the data. */
static struct near_place stage(struct tca_msg_request *request)
{
    struct tca_msg *msg = request->msg;

    if (msg_staging_new(request) < 0 || msg_gather(request, request->staging) < 0)
        return (struct near_place){.region = 0};
    return near_place_of(msg->session, &msg->owner, request->staging, request->room);
}

struct near_place msg_direct_place(struct tca_msg_request *request, struct near_place *ret_stage)
{
    struct near_place place = {.region = 0};

    *ret_stage = place;
    if (!request->peer->copies)
        return place;
    if (!request->layout && (place = place_of(request)).region != NEAR_PRIVATE)
        return place;
    if (request->room > MSG_STAGE_BYTES_MIN)
        *ret_stage = msg_stage_place(request);
    else if (request->msg->staged_bytes + request->room <= STAGED_IN_ALL_MAX) {
        const struct near_place staged = stage(request);
        place = staged.region != 0 ? staged : place;
    }
    return place;
}

/* Copies a message to the receive that it will match. */
static bool put(struct tca_msg_request *request, const struct announcement *announcement)
{
    struct msg_peer *peer = request->peer;
    const struct near_place place = announcement->place;
    uint64_t position = 0;

    if (place.region == 0 || place.region == NEAR_PRIVATE || request->planned ||
        msg_is_eager(request) || request->room > announcement->bytes || !reach(peer, request->msg))
        return false;
    void *target = near_reach(request->msg->session, &peer->direct->view, place, request->room);
    if (!target)
        return false;
    if (request->layout)
        return tca_pack(request->layout, request->address, target, request->room, &position) >= 0;
    near_copy(target, request->address, request->room);
    return true;
}

int msg_direct_send(struct tca_msg_request *request, uint32_t seq, struct msg_head *head)
{
    struct msg_peer *peer = request->peer;
    const struct match_key key = {
        .context = request->context, .rank = peer->rank, .tag = request->tag};
    struct announcement announcement;
    int r = peer->direct ? 0 : begin(peer);

    if (r < 0)
        return r;
    struct forecast *forecast = &peer->direct->forecast;
    if ((r = forecast_read(forecast, peer->confirmed)) < 0)
        return r;
    if (!forecast_claim(forecast, key, &announcement)) {
        forecast_sent(forecast, key, seq);
        return 0;
    }
    const bool copied = put(request, &announcement);
    forecast_copied(forecast, &announcement);
    if (!copied)
        return 0;
    head->kind = MSG_PLACED;
    head->index = (uint8_t)announcement.word;
    head->request = (uint32_t)announcement.number;
    return 1;
}
