#include "client/compat/turn.h"

#include <pthread.h>
#include <stdbool.h>

#include "client/compat/poll.h"

/* Length of a wait if no other thread has recently wanted the turn. */
#define ALONE_NS        (20 * 1000 * 1000)
#define AMONG_OTHERS_NS (1000 * 1000)
enum { AMONG_OTHERS_WAITS = 1000 };

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t next;
    uint64_t tickets, serving;
    uint32_t others; /* how many of the next waits are to be short */
} turns = {.mutex = PTHREAD_MUTEX_INITIALIZER, .next = PTHREAD_COND_INITIALIZER};

static _Thread_local uint32_t depth;

static void wait_for_turn(void)
{
    pthread_mutex_lock(&turns.mutex);
    uint64_t ticket = turns.tickets++;
    while (ticket != turns.serving) {
        turns.others = AMONG_OTHERS_WAITS;
        pthread_cond_wait(&turns.next, &turns.mutex);
    }
    pthread_mutex_unlock(&turns.mutex);
}

static void give_turn(void)
{
    pthread_mutex_lock(&turns.mutex);
    turns.serving++;
    if (turns.serving != turns.tickets)
        pthread_cond_broadcast(&turns.next);
    pthread_mutex_unlock(&turns.mutex);
}

struct turn turn_take(void)
{
    if (depth++ == 0) {
        polls_end();
        wait_for_turn();
    }
    return (struct turn){.depth = depth};
}

void turn_end(const struct turn *turn)
{
    depth = turn->depth - 1;
    if (depth == 0)
        give_turn();
}

int64_t turn_pass(void)
{
    give_turn();
    wait_for_turn();
    pthread_mutex_lock(&turns.mutex);
    bool others = turns.others > 0;
    turns.others -= others;
    pthread_mutex_unlock(&turns.mutex);
    return others ? AMONG_OTHERS_NS : ALONE_NS;
}
