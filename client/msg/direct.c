/* Messages between ranks of a node that copy straight from and to each other's memory. A receive
 * that is posted first is announced (client/msg/announce.h), and the sender copies; otherwise the
 * sender offers the place of its data, and the receiver copies. Whoever copies needs the memory of
 * the other one to be in a region; its own may be anywhere. */
#include <errno.h>
#include <stdlib.h>

#include "client/core/error.h"
#include "client/msg/msg.h"

/* For longer ones, plans share the copying between both ranks, and choose how to copy by trial. But
 * a plan takes about a millisecond to make: only for what is sent again. */
enum { COPY_BYTES_MAX = 65536 };

bool msg_direct_is_planned(const struct tca_msg_request *request)
{
    const uint64_t what =
        ((uint64_t)(uintptr_t)request->address + request->room) * UINT64_C(0x9e3779b97f4a7c15) ^
        request->peer->rank;
    uint64_t *place = &request->msg->long_sends[(what >> 32) % MSG_CACHE];
    const bool repeated = *place == what;

    if (request->room <= COPY_BYTES_MAX)
        return false;
    *place = what;
    return repeated;
}

static bool is_direct(const struct tca_msg_request *request)
{
    return !msg_is_eager(request) && !request->planned;
}

/* Before the first message to the other rank: what it announces counts from then on. */
static int begin(struct msg_peer *peer)
{
    struct msg_direct *direct = peer->direct ? NULL : calloc(1, sizeof(*direct));

    if (peer->direct)
        return 0;
    if (!direct)
        return error_static(-ENOMEM, "message: out of memory");
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
    direct->announcer.page = &direct->there->announced;
    return true;
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
    struct tca_msg *msg = request->msg;
    const struct announcement announcement = {
        .context = request->context,
        .tag = request->tag,
        .seen = peer->taken,
        .place = request->layout || request->room <= TCA_MSG_EAGER_BYTES
                     ? (struct near_place){.region = 0}
                     : near_place_of(msg->session, &msg->owner, request->address, request->room),
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

    if (begin(peer) < 0) {
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

int msg_direct_pull(struct tca_msg_request *request, struct near_place place)
{
    struct msg_peer *peer = request->peer;

    if (place.region == 0 || !peer->copies || begin(peer) < 0 || !reach(peer, request->msg))
        return 0;
    const void *data =
        near_reach(request->msg->session, &peer->direct->view, place, request->bytes);
    if (!data)
        return 0;
    const int r = msg_tell_taken(request, msg_scatter(request, data, request->bytes));
    return r < 0 ? r : 1;
}

/* ---- sends */

struct near_place msg_direct_place(const struct tca_msg_request *request)
{
    if (!request->peer->copies || request->layout || !is_direct(request))
        return (struct near_place){.region = 0};
    return near_place_of(request->msg->session, &request->msg->owner, request->address,
                         request->room);
}

/* Copies a message to the receive that it will match. */
static bool put(struct tca_msg_request *request, const struct announcement *announcement)
{
    struct msg_peer *peer = request->peer;
    uint64_t position = 0;

    if (announcement->place.region == 0 || !is_direct(request) ||
        request->room > announcement->bytes || !reach(peer, request->msg))
        return false;
    void *target =
        near_reach(request->msg->session, &peer->direct->view, announcement->place, request->room);
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
    int r = begin(peer);

    if (r < 0)
        return r;
    struct forecast *forecast = &peer->direct->forecast;
    if ((r = forecast_read(forecast, peer->confirmed)) < 0)
        return r;
    if (!forecast_claim(forecast, key, &announcement)) {
        forecast_sent(forecast, key, seq);
        return 0;
    }
    if (!put(request, &announcement))
        return 0;
    head->kind = MSG_PLACED;
    head->index = (uint8_t)announcement.word;
    head->request = (uint32_t)announcement.number;
    return 1;
}
