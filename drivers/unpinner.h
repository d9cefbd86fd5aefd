/* A thread that deregisters memory which peers could write to until just now. The kernel unpins it page
 * by page, which takes milliseconds for a long region, and only the polling thread finds out that the
 * last peer has stopped writing to it: without this thread, all users' puts would wait. */
#pragma once

#include <pthread.h>
#include <stdbool.h>

/* A member of the driver's region. */
struct unpin {
    struct unpin *next;
};

struct unpinner {
    void (*release)(void *context, struct unpin *region);
    void *context;
    bool runs; /* has a thread */
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t news;
    bool ends;
    struct unpin *first, **last; /* in the order in which they came */
};

/* Without a thread: unpinner_give() then releases at once. For memory of a process of its own, which it
 * frees in its own time. */
void unpinner_init(struct unpinner *unpinner, void (*release)(void *context, struct unpin *region),
                   void *context);
/* With a thread of this name. 0 or a negative errno. */
int unpinner_start(struct unpinner *unpinner, const char *name);
/* Waits until everything was released. What is given afterwards is released at once. */
void unpinner_stop(struct unpinner *unpinner);
void unpinner_deinit(struct unpinner *unpinner);
/* Releases the region, after those that were given before. Any thread. Allocates nothing. */
void unpinner_give(struct unpinner *unpinner, struct unpin *region);
