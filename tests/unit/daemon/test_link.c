/* Links, with an engine and a driver that do only what the test requests. */
#include "daemon/rails/link.h"

#include <criterion/criterion.h>
#include <errno.h>

#include "daemon/base/worker.h"
#include "daemon/engine/engine.h"
#include "daemon/rails/rails.h"
#include "daemon/sessions/region.h"
#include "daemon/tcad.h"

/* ---- a driver whose peers always have the same address ---- */

static char place;
static unsigned connects, disconnects, fails;

static int peer_connect(struct driver *driver, const void *address, size_t address_bytes,
                        struct driver_peer **ret_peer, void *ret_offer, size_t *ret_offer_bytes)
{
    connects++;
    *ret_peer = (struct driver_peer *)&place;
    *ret_offer_bytes = 0;
    return 0;
}

static void peer_disconnect(struct driver *driver, struct driver_peer *peer)
{
    disconnects++;
}

static void peer_fail(struct driver *driver, struct driver_peer *peer, int error)
{
    fails++;
}

static const struct driver_ops ops = {.id = DRIVER_OFI,
                                      .peer_connect = peer_connect,
                                      .peer_disconnect = peer_disconnect,
                                      .peer_fail = peer_fail};
static const struct driver_caps caps = {.same_node = true, .other_nodes = true};
static struct driver driver = {.ops = &ops};

struct driver *engine_driver(const struct engine *engine, unsigned rail)
{
    return &driver;
}

const struct driver_caps *engine_driver_caps(const struct engine *engine, unsigned rail)
{
    return &caps;
}

/* ---- an engine that works at once, and whose posts the loop runs on request ---- */

static struct {
    void (*done)(void *context);
    void *context;
} posts[8];
static unsigned post_count;

static int reserved;

int engine_loss_reserve(struct engine *engine)
{
    reserved++;
    return 0;
}

void engine_loss_return(struct engine *engine)
{
    reserved--;
}

void engine_call(struct engine *engine, struct engine_call *call,
                 void (*work)(struct engine *engine, void *context), void (*done)(void *context),
                 void *context)
{
    work(engine, context);
    if (!done)
        return;
    posts[post_count].done = done;
    posts[post_count++].context = context;
}

static void take_posts(void)
{
    for (unsigned i = 0; i < post_count; i++)
        posts[i].done(posts[i].context);
    post_count = 0;
}

static struct {
    void (*work)(void *context);
    void (*done)(void *context);
    void *context;
} job; /* the worker's only one */

int worker_submit(struct worker *worker, uint64_t lane, void (*work)(void *context),
                  void (*done)(void *context), void (*dropped)(void *context), void *context)
{
    job.work = work;
    job.done = done;
    job.context = context;
    return 0;
}

struct region *region_ref(struct region *region)
{
    return region;
}

void region_unref(struct region *region)
{
}

/* ---- tests ---- */

enum { RAIL = 2 };
static struct rails rails = {
    .count = RAIL,
    .last = RAIL,
    .at = {
        [RAIL] = {.name = "ofi", .plane = "a", .driver = DRIVER_OFI, .ops = &ops, .open = true}}};
static struct tcad tcad = {.node = 0, .rails = &rails};
static struct links *links;

static void up(uint32_t node)
{
    Tca__RailAddress address = TCA__RAIL_ADDRESS__INIT;
    address.driver = (char *)"ofi";
    address.plane = (char *)"a";
    links_up(links, node, 1, (Tca__RailAddress *[]){&address});
}

static void setup(void)
{
    cr_assert_eq(links_new(&tcad, NULL, &links), 0);
    up(1);
}

TestSuite(link, .init = setup);

static void connect_link(struct link *link)
{
    cr_assert_eq(link_connect(link, NULL), -EINPROGRESS);
    cr_assert_null(link->peer);
    job.work(job.context);
    job.done(job.context);
    cr_assert_eq(link->state, LINK_CONNECTED);
    cr_assert_eq(link_connect(link, NULL), 0);
}

static int lost_by(const struct engine *engine)
{
    unsigned rail;
    return links_lost(links, engine, (struct driver_peer *)&place, &rail);
}

static int lost(void)
{
    return lost_by(tcad.engine);
}

Test(link, a_lost_one_is_replaced)
{
    struct link *link = link_get(links, 1, RAIL, tcad.engine);
    connect_link(link);
    cr_assert_eq(lost(), 1);
    cr_assert(link->state == LINK_FAILED);
    cr_assert_eq(lost(), -1, "it was so already");
    struct link *fresh = link_get(links, 1, RAIL, tcad.engine);
    cr_assert(fresh && fresh != link && fresh->state == LINK_IDLE);
    link_unref(link);
    link_unref(fresh);
    take_posts();
    cr_assert_eq(disconnects, 1);
    links_free(links);
    cr_assert_eq(reserved, 0);
}

/* The driver's event for a peer arrives after the peer's memory has been reused for another. */
Test(link, news_of_the_old_peer_do_not_hit_the_new_one)
{
    struct link *old = link_get(links, 1, RAIL, tcad.engine);
    connect_link(old);
    links_down(links, 1);
    link_unref(old); /* the last one: the engine disconnects it, the loop does not know yet */
    cr_assert_eq(disconnects, 1);
    up(1);
    struct link *link = link_get(links, 1, RAIL, tcad.engine);
    connect_link(link);

    cr_assert_eq(lost(), -1, "of the old one");
    cr_assert(link->state == LINK_CONNECTED);
    take_posts();
    cr_assert_eq(lost(), 1, "of the new one");
    cr_assert(link->state == LINK_FAILED);
    link_unref(link);
    take_posts();
    links_free(links);
    cr_assert_eq(reserved, 0);
}

/* The drivers of both engines have given their peers the same address. */
Test(link, each_engine_has_its_own)
{
    static char engines[2];
    struct engine *first = (struct engine *)&engines[0], *second = (struct engine *)&engines[1];
    links_down(links, 1);
    tcad.engine = first;
    up(1);
    struct link *link = link_get(links, 1, RAIL, first), *other = link_get(links, 1, RAIL, second),
                *again = link_get(links, 1, RAIL, second);
    cr_assert(link && other && link != other && other == again);
    cr_assert(link->engine == first && other->engine == second);
    cr_assert_eq(links_find(links, 1, RAIL), link);
    connect_link(other);
    cr_assert_eq(link->state, LINK_IDLE);
    connect_link(link);

    cr_assert_eq(lost_by(second), 1);
    cr_assert(other->state == LINK_FAILED && link->state == LINK_CONNECTED);
    cr_assert_eq(link->comeback.losses, 1,
                 "the rail is as lost as if the first engine had lost it");
    struct link *fresh = link_get(links, 1, RAIL, second);
    cr_assert(fresh != other && fresh->state == LINK_IDLE && fresh->engine == second);
    connect_link(fresh);
    cr_assert_eq(lost_by(second), 1);
    cr_assert_eq(link->comeback.losses, 1, "it did not lead there again");
    link_unref(other);
    link_unref(again);
    cr_assert_eq(disconnects, 1);
    cr_assert_eq(lost_by(first), 1, "which disconnects nothing");
    cr_assert(link->state == LINK_FAILED);
    cr_assert_eq(links_find(links, 1, RAIL)->comeback.losses, 2);

    links_down(links, 1);
    cr_assert_null(link_get(links, 1, RAIL, second), "nor had the first engine one");
    link_unref(link);
    link_unref(fresh);
    take_posts();
    cr_assert_eq(disconnects, 3);
    links_free(links);
    cr_assert_eq(reserved, 0);
}

Test(link, what_still_ends_outlives_the_table)
{
    struct link *link = link_get(links, 1, RAIL, tcad.engine);
    connect_link(link);
    link_unref(link);
    links = links_free(links);
    cr_assert_null(links);
    take_posts();
    cr_assert_eq(disconnects, 1);
    cr_assert_eq(fails, 1, "its puts have ended first");
}
