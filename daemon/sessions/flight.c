#include "daemon/sessions/flight.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/resource.h>

#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/sessions/closer.h"
#include "daemon/sessions/user.h"
#include "daemon/tcad.h"
#include "proto/limits.h"
#include "proto/list.h"
#include "proto/wait.h"

/* Everybody leaves some for others: however many do not read, whoever comes next still gets
 * descriptors. */
enum {
    PARTS_FOR_TCAD = 2, /* one of so many parts of RLIMIT_NOFILE; others: processes of its user */
    PARTS_FOR_USER = 4, /* one of so many parts of what all users leave of that */
    PARTS_FOR_CONNECTION = 16, /* one of so many parts of what its user has left */
    EMPTY_MAX_BYTES =
        128, /* in a socket's queue: less than any message, but the last may just be being freed */
    PARTS_FOR_LOOKING = 20, /* of the loop's time */
};
#define PAUSE_MIN_NS       UINT64_C(1000000)
#define PAUSE_MAX_NS       UINT64_C(100000000)
#define PAUSE_KEPT_NS      UINT64_C(1000000000)
#define COMPLAINT_EVERY_NS UINT64_C(10000000000)

struct flight {
    struct flight *next, **link;                 /* in flights->busy, while count > 0 */
    struct flight *next_waiting, **link_waiting; /* in flights->waiting, or ->turn */
    struct flights *flights;
    int fd;
    uid_t uid;
    pid_t pid;
    uint32_t count;    /* of descriptors that it may not have received */
    uint64_t waits_ns; /* since when it waits; 0: it does not */
    struct charge charge;
    void (*again)(void *context); /* NULL: the connection has ended */
    void *context;
};

struct flights {
    struct tcad *tcad;
    struct flight *busy;
    uint32_t count, kept; /* of descriptors; of ended connections */
    struct flight *waiting, **waiting_end;
    struct flight *turn; /* to be called in this tick */
    struct loop_timer *tick;
    uint64_t pause_ns; /* 0: the timer does not run */
    uint64_t looked_ns, complained_ns;
    int error; /* of the last who waits */
};

/* ---- what is in flight ---- */

static void land(struct flight *flight)
{
    flight->flights->count -= flight->count;
    flight->count = 0;
    charge_drop(&flight->charge);
    LIST_REMOVE(flight, next, link);
}

static void flight_free(struct flight *flight)
{
    if (flight->count > 0)
        land(flight);
    closer_end(flight->flights->tcad, flight->uid, flight->fd);
    free(flight);
}

/* Whether it has received everything. An ended connection is then freed. */
static bool look(struct flight *flight)
{
    int bytes;
    if (flight->count == 0)
        return true;
    if (ioctl(flight->fd, SIOCOUTQ, &bytes) == 0 && bytes >= EMPTY_MAX_BYTES)
        return false;
    land(flight);
    if (!flight->again) {
        flight->flights->kept--;
        flight_free(flight);
    }
    return true;
}

void flights_look(struct flights *flights)
{
    flights->looked_ns = clock_now_ns();
    for (struct flight *flight = flights->busy, *next; flight; flight = next) {
        next = flight->next;
        look(flight);
    }
}

/* ---- who may ---- */

static uint64_t limit_of_all(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_NOFILE, &limit) < 0 ? 0 : (uint64_t)limit.rlim_cur / PARTS_FOR_TCAD;
}

static uint64_t part(uint64_t all, uint64_t taken, unsigned parts)
{
    return all > taken ? (all - taken) / parts : 0;
}

/* A message always fits sometime. */
static uint64_t limit_of_user(const struct flights *flights, uint64_t of_all)
{
    const uint64_t limit = part(of_all, flights->count, PARTS_FOR_USER);
    return limit > FRAME_FDS_MAX ? limit : FRAME_FDS_MAX;
}

static bool fits(const struct flight *flight, uint32_t count)
{
    const struct flights *flights = flight->flights;
    const struct user *user = user_find(flights->tcad, flight->uid);
    const uint64_t of_all = limit_of_all(), of_user = limit_of_user(flights, of_all),
                   has = user ? user->in_flight : 0;
    return flights->count + count <= of_all && has + count <= of_user &&
           (flight->count == 0 ||
            flight->count + count <= part(of_user, has, PARTS_FOR_CONNECTION));
}

bool flight_may(struct flight *flight, uint32_t count)
{
    struct flights *flights = flight->flights;
    if (count == 0 || fits(flight, count))
        return true;
    if (look(flight) && fits(flight, count))
        return true;
    if (clock_now_ns() - flights->looked_ns < PAUSE_MIN_NS)
        return false;
    flights_look(flights);
    return fits(flight, count);
}

void flight_sent(struct flight *flight, uint32_t count)
{
    char text[256];
    if (count == 0)
        return;
    flight->waits_ns = 0;
    if (flight->count == 0)
        LIST_ADD(&flight->flights->busy, flight, next, link);
    flight->count += count;
    flight->flights->count += count;
    /* Needs no memory if the user has a session; otherwise only the total counts. */
    if (charge_take(flight->flights->tcad, &flight->charge, flight->uid, USER_MESSAGES, 0,
                    "a reply that is not read", text, sizeof(text)) == 0)
        charge_in_flight(&flight->charge, count);
}

/* ---- waiting ---- */

/* Nobody gets on: says who has most, of the users and of the connections. */
static void complain(struct flights *flights)
{
    const uint64_t now_ns = clock_now_ns();
    if (flights->complained_ns && now_ns - flights->complained_ns < COMPLAINT_EVERY_NS)
        return;
    flights->complained_ns = now_ns;
    const struct user *most = NULL;
    const struct flight *one = NULL;
    uint32_t connections = 0;
    for (const struct flight *flight = flights->busy; flight; flight = flight->next) {
        const struct user *user = flight->charge.user;
        if (user && (!most || user->in_flight > most->in_flight))
            most = user;
        if (!one || flight->count > one->count)
            one = flight;
    }
    for (const struct flight *flight = flights->busy; flight; flight = flight->next)
        connections += most && flight->charge.user == most;
    const uint64_t of_all = limit_of_all();
    log_warning(
        NULL,
        "%s: clients have not received %" PRIu32 " descriptors of %" PRIu64
        " that may be in flight (half of LimitNOFILE=); most of them user %u: %" PRIu32
        " on %" PRIu32 " connections; on one connection, pid %d: %" PRIu32
        ": replies of users with more than %" PRIu64 " wait",
        flights->error ? "the processes of tcad's user have as many descriptors in flight as "
                         "Linux allows"
                       : "a user does not read its replies",
        flights->count, of_all, most ? most->uid : 0, most ? most->in_flight : 0, connections,
        one ? one->pid : 0, one ? one->count : 0, limit_of_user(flights, of_all));
}

static void set_tick(struct flights *flights, uint64_t pause_ns)
{
    if (flights->pause_ns && flights->pause_ns <= pause_ns)
        return;
    flights->pause_ns = loop_timer_set(flights->tick, pause_ns, 0) < 0 ? 0 : pause_ns;
}

void flight_wait(struct flight *flight, int error)
{
    struct flights *flights = flight->flights;
    if (flight->link_waiting)
        return;
    if (!flight->waits_ns)
        flight->waits_ns = clock_now_ns();
    flight->link_waiting = flights->waiting_end;
    *flights->waiting_end = flight;
    flights->waiting_end = &flight->next_waiting;
    flights->error = error;
    set_tick(flights, PAUSE_MIN_NS);
}

bool flight_waits(const struct flight *flight)
{
    return flight->link_waiting;
}

static void stop_waiting(struct flight *flight)
{
    if (!flight->link_waiting)
        return;
    *flight->link_waiting = flight->next_waiting;
    if (flight->next_waiting)
        flight->next_waiting->link_waiting = flight->link_waiting;
    else if (flight->flights->waiting_end == &flight->next_waiting)
        flight->flights->waiting_end = flight->link_waiting;
    flight->next_waiting = NULL;
    flight->link_waiting = NULL;
}

/* Earlier than clients, by default, give up. */
bool flight_is_late(const struct flight *flight, char *text, size_t text_bytes)
{
    const struct flights *flights = flight->flights;
    const uint64_t patience_ns = flights->tcad->conf->control.request_timeout_ns / 2;
    if (!flight->waits_ns || clock_now_ns() - flight->waits_ns < patience_ns)
        return false;
    const struct user *user = user_find(flights->tcad, flight->uid);
    const struct flight *most = NULL;
    uint32_t connections = 0;
    for (const struct flight *one = flights->busy; one; one = one->next) {
        if (one->uid != flight->uid)
            continue;
        connections++;
        if (!most || one->count > most->count)
            most = one;
    }
    if (flights->error)
        snprintf(text, text_bytes,
                 "the processes of tcad's user have as many descriptors in flight as Linux allows "
                 "(RLIMIT_NOFILE): end those that do not read theirs");
    else if (most)
        snprintf(text, text_bytes,
                 "%" PRIu32 " processes of user %u have not received %" PRIu32
                 " descriptors that tcad has sent to them, most of them pid %d (%" PRIu32
                 "), and the user may have %" PRIu64
                 " on their way now: let them call the library, or end them",
                 connections, flight->uid, user ? user->in_flight : most->count, most->pid,
                 most->count, limit_of_user(flights, limit_of_all()));
    else
        snprintf(text, text_bytes,
                 "other users have not received %" PRIu32
                 " descriptors that tcad has sent to them, of %" PRIu64
                 " that may be on their way (half of LimitNOFILE=): tcad's log names them",
                 flights->count, limit_of_all());
    return true;
}

/* Lets everybody try who waits, in this order. More often while that helps. */
static void tick(void *context)
{
    struct flights *flights = context;
    const uint64_t start_ns = clock_now_ns(), before_ns = flights->pause_ns;
    uint32_t before = 0, after = 0;
    flights->pause_ns = 0;
    flights_look(flights);
    flights->turn = flights->waiting;
    if (flights->turn)
        flights->turn->link_waiting = &flights->turn;
    flights->waiting = NULL;
    flights->waiting_end = &flights->waiting;
    while (flights->turn) {
        struct flight *flight = flights->turn;
        stop_waiting(flight);
        flight->again(flight->context);
        before++;
    }
    for (const struct flight *flight = flights->waiting; flight; flight = flight->next_waiting)
        after++;
    if (!after && !flights->kept)
        return;
    uint64_t pause_ns = after < before ? PAUSE_MIN_NS : 2 * before_ns;
    if (after && pause_ns > PAUSE_MAX_NS)
        complain(flights);
    const uint64_t most_ns = after ? PAUSE_MAX_NS : PAUSE_KEPT_NS,
                   least_ns = PARTS_FOR_LOOKING * (clock_now_ns() - start_ns);
    pause_ns = pause_ns > most_ns ? most_ns : pause_ns;
    flights->pause_ns = 0;
    set_tick(flights, pause_ns > least_ns ? pause_ns : least_ns);
}

/* ---- lifetime ---- */

struct flight *flight_new(struct tcad *tcad, int fd, uid_t uid, pid_t pid,
                          void (*again)(void *context), void *context)
{
    struct flight *flight = malloc(sizeof(*flight));
    if (flight)
        *flight = (struct flight){.flights = tcad->flights,
                                  .fd = fd,
                                  .uid = uid,
                                  .pid = pid,
                                  .again = again,
                                  .context = context};
    return flight;
}

struct flight *flight_end(struct flight *flight)
{
    if (!flight)
        return NULL;
    stop_waiting(flight);
    if (look(flight)) {
        flight_free(flight);
        return NULL;
    }
    flight->again = NULL;
    flight->flights->kept++;
    if (flight->charge.user)
        charge_descriptors(&flight->charge, 1);
    set_tick(flight->flights, PAUSE_KEPT_NS);
    return NULL;
}

int flights_new(struct tcad *tcad, struct flights **ret_flights)
{
    struct flights *flights = calloc(1, sizeof(*flights));
    if (!flights)
        return -ENOMEM;
    flights->tcad = tcad;
    flights->waiting_end = &flights->waiting;
    int r = loop_timer_new(tcad->loop, tick, flights, &flights->tick);
    if (r < 0) {
        free(flights);
        return r;
    }
    *ret_flights = flights;
    return 0;
}

struct flights *flights_free(struct flights *flights)
{
    if (!flights)
        return NULL;
    while (flights->busy)
        flight_free(flights->busy);
    loop_timer_free(flights->tick);
    free(flights);
    return NULL;
}
