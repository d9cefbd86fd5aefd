/*
 * Recall of keys. The owner of freed memory has told others how to write to it: each of these
 * holders has a key (a registration, a bus address). So the memory stays as it is, and belongs to
 * nobody else, until every holder has confirmed a message of its driver that names the key: then it
 * writes there no more, and what it had written has arrived. A holder that does not confirm is
 * asked again, and is cut off after a deadline, if the driver can do that.
 *
 * Keys are numbered in the order in which they are recalled, and a holder confirms all up to a
 * number. But a key waits only for those that hold it.
 *
 * Threads: any, except that recall_run() is for the one that polls the driver. The callbacks are
 * called with the recall's mutex held, and call nothing of this header; free() is called without.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* What was freed: a member of the driver's object. */
struct recall_key {
    uint64_t number;
    unsigned holders; /* that have not confirmed it */
    struct recall_key *next, **link;
};

enum recall_state {
    RECALL_OUT,     /* no holder */
    RECALL_ANSWERS, /* is asked to confirm what it holds */
    RECALL_MUTE,    /* cannot be asked at present: what it holds waits, and no deadline runs */
    RECALL_CUT_OFF, /* has not confirmed in time: nothing that it writes arrives, so nothing
                     * waits */
    RECALL_RETURNS, /* as before, but is asked for the confirmation that it owes */
    RECALL_STATES
};
/* Which state may follow which: recall_legal[from][to]. */
extern const bool recall_legal[RECALL_STATES][RECALL_STATES];

/* A member of the driver's peer. All zero: no holder. */
struct recall_holder {
    enum recall_state state;
    struct recall_key *first; /* of those that it has not confirmed; NULL: none */
    uint64_t asked;           /* the last number that it was asked for */
    uint64_t owes;            /* CUT_OFF, RETURNS: the number that it has to confirm */
    uint64_t again_ns;        /* when it is asked (again) */
    uint64_t period_ns;       /* between that and the next time */
    uint64_t deadline_ns;     /* when it is cut off; 0: nobody has looked since it began to wait */
    struct recall_holder *next, **link;
};

enum { RECALL_MANY_MAX = 64 }; /* keys in a message, at most */

struct recall_driver {
    /* Whether the holder may have the key. Says the same about a key until it is freed. */
    bool (*holds)(void *context, const struct recall_holder *holder, const struct recall_key *key);
    /* Asks it to confirm that it writes with none of these keys any more, nor with earlier ones;
     * count 0: with none up to the number. 0, or -EAGAIN: not now. */
    int (*send)(void *context, struct recall_holder *holder, struct recall_key *const *keys,
                unsigned count, uint64_t number);
    /* NULL: it cannot be cut off. Nothing that it writes from now on may arrive. */
    void (*cut_off)(void *context, struct recall_holder *holder);
    /* Nobody writes with the key any more. */
    void (*free)(void *context, struct recall_key *key);
    unsigned many;         /* keys in a message */
    uint64_t delay_ns;     /* before a holder is asked */
    uint64_t again_ns;     /* after which it is asked again, */
    uint64_t again_max_ns; /* and then after twice the time, up to this; 0: messages are not lost */
    uint64_t deadline_ns;  /* of a holder that confirms nothing */
};

struct recall {
    const struct recall_driver *driver;
    void *context;
    int fd; /* an eventfd: readable when another thread has something for recall_run() */
    atomic_bool woken;
    atomic_uint pending; /* keys that are not free, and holders that return */
    uint64_t number;     /* of the last key */
    uint64_t looked_ns;  /* the last recall_run() */
    pthread_mutex_t mutex;
    struct recall_holder *holders;
    struct recall_key *keys, **last;        /* that somebody holds */
    struct recall_key *freed, **freed_last; /* that nobody holds any more */
    bool has_thread, ends;
    pthread_t thread;
    pthread_cond_t news;
};

/* number: of the last key of an earlier instance. epoll_fd: where the eventfd is added, or -1. On
 * failure only recall_deinit() may be called. */
int recall_init(struct recall *recall, const struct recall_driver *driver, void *context,
                uint64_t number, int epoll_fd);
/* From now on, a thread of this name calls free(): the kernel unpins long memory for milliseconds,
 * and the polling thread, which finds out that the last holder has stopped, serves all users. */
int recall_start_thread(struct recall *recall, const char *name);
/* Waits until that has freed everything that nobody holds; from now on, others call free(). */
void recall_stop_thread(struct recall *recall);
/* Frees all keys: no holder can write any more. Leaves the holders' states alone. */
void recall_deinit(struct recall *recall);

/* Whether recall_run() has something to do, now or later. */
static inline bool recall_is_busy(struct recall *recall)
{
    return atomic_load_explicit(&recall->pending, memory_order_relaxed) > 0 ||
           atomic_load_explicit(&recall->woken, memory_order_relaxed);
}
/* Makes the descriptor readable until recall_run(). */
void recall_wake(struct recall *recall);
/* Frees the key when none of its holders writes with it any more: at once, if it has none. */
void recall_begin(struct recall *recall, struct recall_key *key, uint64_t now_ns);
/* It may have all keys that are not free yet, and can be asked: a new holder, or a mute one. */
void recall_join(struct recall *recall, struct recall_holder *holder);
void recall_mute(struct recall *recall, struct recall_holder *holder);
/* It writes no more with any key that it has had. */
void recall_leave(struct recall *recall, struct recall_holder *holder);
/* It has confirmed all keys up to this number. True: it was cut off, and owes nothing any more. */
bool recall_ack(struct recall *recall, struct recall_holder *holder, uint64_t number);
/* It is there. False: it was cut off, and has to confirm first, for which it will be asked. */
bool recall_admits(struct recall *recall, struct recall_holder *holder);
/* Asks, cuts off, frees. Returns the number of steps. */
unsigned recall_run(struct recall *recall, uint64_t now_ns);
/* When recall_run() is to be called next, if no key is recalled or confirmed before; UINT64_MAX:
 * never. */
uint64_t recall_due_ns(struct recall *recall);
