#include "drivers/recall.h"

#include <assert.h>
#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "proto/list.h"
#include "proto/thread.h"

/* Who has not looked for this long was not there to hear the answers: its holders get the time
 * back. */
#define LATE_NS UINT64_C(1000000000)

const bool recall_legal[RECALL_STATES][RECALL_STATES] = {
    [RECALL_OUT] = {[RECALL_ANSWERS] = true},
    [RECALL_ANSWERS] = {[RECALL_MUTE] = true, [RECALL_CUT_OFF] = true, [RECALL_OUT] = true},
    [RECALL_MUTE] = {[RECALL_ANSWERS] = true, [RECALL_OUT] = true},
    [RECALL_CUT_OFF] = {[RECALL_RETURNS] = true, [RECALL_ANSWERS] = true, [RECALL_OUT] = true},
    [RECALL_RETURNS] = {[RECALL_CUT_OFF] = true, [RECALL_ANSWERS] = true, [RECALL_OUT] = true},
};

static void pend(struct recall *recall, int count)
{
    atomic_fetch_add_explicit(&recall->pending, (unsigned)count, memory_order_relaxed);
}

static void move(struct recall *recall, struct recall_holder *holder, enum recall_state to)
{
    assert(recall_legal[holder->state][to]);
    pend(recall, (to == RECALL_RETURNS) - (holder->state == RECALL_RETURNS));
    holder->state = to;
    holder->again_ns = holder->deadline_ns = 0;
    holder->period_ns = recall->driver->again_ns;
}

/* ---- keys that nobody holds ---- */

static void append(struct recall_key ***last, struct recall_key *key)
{
    key->next = NULL;
    key->link = *last;
    *key->link = key;
    *last = &key->next;
}

static void take_out(struct recall *recall, struct recall_key *key)
{
    if (recall->last == &key->next)
        recall->last = key->link;
    LIST_REMOVE(key, next, link);
}

/* Unlocks. Without a thread, frees what nobody holds; returns how many. */
static unsigned unlock(struct recall *recall)
{
    unsigned count = 0;
    struct recall_key *freed = recall->has_thread ? NULL : recall->freed;
    if (freed) {
        recall->freed = NULL;
        recall->freed_last = &recall->freed;
    }
    pthread_mutex_unlock(&recall->mutex);
    for (struct recall_key *next; freed; freed = next, count++) {
        next = freed->next;
        recall->driver->free(recall->context, freed);
        pend(recall, -1);
    }
    return count;
}

static void free_later(struct recall *recall, struct recall_key *key)
{
    append(&recall->freed_last, key);
    if (recall->has_thread)
        pthread_cond_signal(&recall->news);
}

static void *free_in_thread(void *context)
{
    struct recall *recall = context;
    pthread_mutex_lock(&recall->mutex);
    while (recall->freed || !recall->ends) {
        struct recall_key *key = recall->freed;
        if (!key) {
            pthread_cond_wait(&recall->news, &recall->mutex);
            continue;
        }
        recall->freed = key->next;
        if (!recall->freed)
            recall->freed_last = &recall->freed;
        pthread_mutex_unlock(&recall->mutex);
        recall->driver->free(recall->context, key);
        pend(recall, -1);
        pthread_mutex_lock(&recall->mutex);
    }
    pthread_mutex_unlock(&recall->mutex);
    return NULL;
}

/* ---- life ---- */

int recall_init(struct recall *recall, const struct recall_driver *driver, void *context,
                uint64_t number, int epoll_fd)
{
    assert(driver->many > 0 && driver->many <= RECALL_MANY_MAX);
    *recall = (struct recall){.driver = driver,
                              .context = context,
                              .number = number,
                              .last = &recall->keys,
                              .freed_last = &recall->freed};
    pthread_mutex_init(&recall->mutex, NULL);
    pthread_cond_init(&recall->news, NULL);
    recall->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN};
    return recall->fd < 0 ||
                   (epoll_fd >= 0 && epoll_ctl(epoll_fd, EPOLL_CTL_ADD, recall->fd, &event) < 0)
               ? -errno
               : 0;
}

int recall_start_thread(struct recall *recall, const char *name)
{
    int r = thread_begin(&recall->thread, name, free_in_thread, recall);
    recall->has_thread = r == 0;
    return r;
}

void recall_stop_thread(struct recall *recall)
{
    if (!recall->has_thread)
        return;
    pthread_mutex_lock(&recall->mutex);
    recall->ends = true;
    pthread_cond_signal(&recall->news);
    pthread_mutex_unlock(&recall->mutex);
    pthread_join(recall->thread, NULL);
    recall->has_thread = false;
}

void recall_deinit(struct recall *recall)
{
    if (!recall->driver)
        return;
    recall_stop_thread(recall);
    pthread_mutex_lock(&recall->mutex);
    while (recall->keys) {
        struct recall_key *key = recall->keys;
        take_out(recall, key);
        free_later(recall, key);
    }
    unlock(recall);
    if (recall->fd >= 0)
        close(recall->fd);
    pthread_cond_destroy(&recall->news);
    pthread_mutex_destroy(&recall->mutex);
    recall->driver = NULL;
}

/* ---- who holds what ---- */

static bool holds(struct recall *recall, const struct recall_holder *holder,
                  const struct recall_key *key)
{
    return recall->driver->holds(recall->context, holder, key);
}

/* The first that it holds, from this one on. */
static struct recall_key *next_held(struct recall *recall, const struct recall_holder *holder,
                                    struct recall_key *key)
{
    while (key && !holds(recall, holder, key))
        key = key->next;
    return key;
}

/* It does not hold up what it holds up to this number any more. */
static void confirm(struct recall *recall, struct recall_holder *holder, uint64_t number)
{
    while (holder->first && holder->first->number <= number) {
        struct recall_key *key = holder->first;
        holder->first = next_held(recall, holder, key->next);
        if (--key->holders > 0)
            continue;
        take_out(recall, key);
        free_later(recall, key);
    }
    holder->again_ns = holder->deadline_ns = 0;
    holder->period_ns = recall->driver->again_ns;
}

static void wake(struct recall *recall)
{
    if (!atomic_exchange_explicit(&recall->woken, true, memory_order_relaxed))
        eventfd_write(recall->fd, 1);
}

void recall_wake(struct recall *recall)
{
    pthread_mutex_lock(&recall->mutex);
    wake(recall);
    pthread_mutex_unlock(&recall->mutex);
}

void recall_begin(struct recall *recall, struct recall_key *key, uint64_t now_ns)
{
    pthread_mutex_lock(&recall->mutex);
    *key = (struct recall_key){.number = ++recall->number};
    pend(recall, 1);
    for (struct recall_holder *holder = recall->holders; holder; holder = holder->next) {
        if (!holds(recall, holder, key))
            continue;
        if (holder->state == RECALL_CUT_OFF || holder->state == RECALL_RETURNS) {
            holder->owes = key->number;
            continue;
        }
        key->holders++;
        if (holder->first)
            continue;
        holder->first = key;
        holder->again_ns = now_ns + recall->driver->delay_ns;
    }
    if (key->holders == 0) {
        free_later(recall, key);
    } else {
        append(&recall->last, key);
        wake(recall);
    }
    unlock(recall);
}

void recall_join(struct recall *recall, struct recall_holder *holder)
{
    pthread_mutex_lock(&recall->mutex);
    if (holder->state == RECALL_OUT) {
        *holder = (struct recall_holder){.first = next_held(recall, holder, recall->keys)};
        for (struct recall_key *key = holder->first; key;
             key = next_held(recall, holder, key->next))
            key->holders++;
        LIST_ADD(&recall->holders, holder, next, link);
    }
    if (holder->state != RECALL_ANSWERS)
        move(recall, holder, RECALL_ANSWERS);
    if (holder->first)
        wake(recall);
    pthread_mutex_unlock(&recall->mutex);
}

void recall_mute(struct recall *recall, struct recall_holder *holder)
{
    pthread_mutex_lock(&recall->mutex);
    if (holder->state == RECALL_ANSWERS)
        move(recall, holder, RECALL_MUTE);
    pthread_mutex_unlock(&recall->mutex);
}

void recall_leave(struct recall *recall, struct recall_holder *holder)
{
    pthread_mutex_lock(&recall->mutex);
    if (holder->state != RECALL_OUT) {
        confirm(recall, holder, UINT64_MAX);
        LIST_REMOVE(holder, next, link);
        move(recall, holder, RECALL_OUT);
    }
    unlock(recall);
}

bool recall_ack(struct recall *recall, struct recall_holder *holder, uint64_t number)
{
    bool returned = false;
    pthread_mutex_lock(&recall->mutex);
    switch (holder->state) {
    case RECALL_ANSWERS:
    case RECALL_MUTE:
        if (holder->first && number >= holder->first->number && number <= holder->asked)
            confirm(recall, holder, number);
        break;
    case RECALL_CUT_OFF:
    case RECALL_RETURNS:
        returned = number >= holder->owes && number <= recall->number;
        if (returned)
            move(recall, holder, RECALL_ANSWERS);
        else if (holder->state == RECALL_CUT_OFF)
            move(recall, holder, RECALL_RETURNS);
        holder->again_ns = 0;
        break;
    case RECALL_OUT:
    case RECALL_STATES:
        break;
    }
    unlock(recall);
    return returned;
}

bool recall_admits(struct recall *recall, struct recall_holder *holder)
{
    pthread_mutex_lock(&recall->mutex);
    if (holder->state == RECALL_CUT_OFF)
        move(recall, holder, RECALL_RETURNS);
    const bool admits = holder->state != RECALL_RETURNS;
    pthread_mutex_unlock(&recall->mutex);
    return admits;
}

/* ---- asking ---- */

static bool is_asked(const struct recall_holder *holder)
{
    return (holder->state == RECALL_ANSWERS && holder->first) || holder->state == RECALL_RETURNS;
}

static unsigned ask(struct recall *recall, struct recall_holder *holder, uint64_t now_ns)
{
    const struct recall_driver *driver = recall->driver;
    struct recall_key *keys[RECALL_MANY_MAX], *key = holder->first;
    unsigned count = 0;
    uint64_t number = recall->number;
    for (; key && count < driver->many; key = next_held(recall, holder, key->next)) {
        keys[count++] = key;
        number = key->number;
    }
    if (driver->send(recall->context, holder, keys, count, number) < 0)
        return 0;
    holder->asked = number;
    holder->again_ns = driver->again_ns > 0 ? now_ns + holder->period_ns : UINT64_MAX;
    if (holder->period_ns < driver->again_max_ns)
        holder->period_ns *= 2;
    return 1;
}

static unsigned cut_off(struct recall *recall, struct recall_holder *holder)
{
    if (holder->state == RECALL_ANSWERS) {
        for (struct recall_key *key = holder->first; key;
             key = next_held(recall, holder, key->next))
            holder->owes = key->number;
        confirm(recall, holder, UINT64_MAX);
        recall->driver->cut_off(recall->context, holder);
    }
    move(recall, holder, RECALL_CUT_OFF);
    return 1;
}

static unsigned serve(struct recall *recall, struct recall_holder *holder, uint64_t late_ns,
                      uint64_t now_ns)
{
    if (!is_asked(holder))
        return 0;
    if (holder->deadline_ns == 0)
        holder->deadline_ns = now_ns + recall->driver->delay_ns + recall->driver->deadline_ns;
    else
        holder->deadline_ns += late_ns;
    if (recall->driver->cut_off && now_ns > holder->deadline_ns)
        return cut_off(recall, holder);
    return now_ns >= holder->again_ns ? ask(recall, holder, now_ns) : 0;
}

unsigned recall_run(struct recall *recall, uint64_t now_ns)
{
    unsigned steps = 0;
    eventfd_t ignored;
    pthread_mutex_lock(&recall->mutex);
    if (atomic_exchange_explicit(&recall->woken, false, memory_order_relaxed))
        eventfd_read(recall->fd, &ignored);
    const uint64_t passed_ns = now_ns - recall->looked_ns,
                   late_ns = passed_ns > LATE_NS ? passed_ns : 0;
    recall->looked_ns = now_ns;
    for (struct recall_holder *holder = recall->holders; holder; holder = holder->next)
        steps += serve(recall, holder, late_ns, now_ns);
    return steps + unlock(recall);
}

uint64_t recall_due_ns(struct recall *recall)
{
    uint64_t due_ns = UINT64_MAX;
    pthread_mutex_lock(&recall->mutex);
    for (const struct recall_holder *holder = recall->holders; holder; holder = holder->next) {
        if (!is_asked(holder))
            continue;
        if (holder->again_ns < due_ns)
            due_ns = holder->again_ns;
        if (recall->driver->cut_off && holder->deadline_ns < due_ns)
            due_ns = holder->deadline_ns;
    }
    pthread_mutex_unlock(&recall->mutex);
    return due_ns;
}
