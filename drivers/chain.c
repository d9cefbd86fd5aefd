#include "drivers/chain.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/notify.h"

struct chain_slot {
    struct chain_step step;
    struct driver_op op;
    struct chain *chain;
    bool refused; /* posting it returned -EAGAIN at least once in this start */
};

struct chain {
    uint32_t next;      /* index of the step to run */
    uint32_t in_flight; /* operations that were posted and are not done */
    uint32_t step_count;
    uint32_t tail; /* index after the last put or wait; later steps only wait for these */
    bool single;   /* one put and nothing else */
    bool running;
    bool refused;   /* a slot was refused */
    int lost;       /* error of a wait whose notifier is gone */
    int hurry;      /* 0, or the error of a start that would have to wait */
    int error;      /* first error of this start; no step is posted after it */
    uint32_t fault; /* driver_op.fault of that error */
    int result;     /* of the last start: the result of chain_run() after its end */
    struct chain_slot slots[];
};

static __attribute__((cold)) void note_failure(struct chain *chain, struct driver_op *op, int error)
{
    if (chain->error == 0) {
        chain->error = error;
        chain->fault = op->fault;
    }
    op->fault = 0; /* drivers set it only with some errors */
}

static void put_done(struct driver_op *op, int status)
{
    struct chain_slot *slot = (struct chain_slot *)((char *)op - offsetof(struct chain_slot, op));
    struct chain *chain = slot->chain;
    chain->in_flight--;
    if (__builtin_expect(status < 0, 0))
        note_failure(chain, op, status);
}

int chain_new_empty(uint32_t step_count, struct chain **ret_chain)
{
    if (step_count > CHAIN_STEPS_MAX)
        return -E2BIG;
    struct chain *chain = calloc(1, sizeof(*chain) + step_count * sizeof(chain->slots[0]));
    if (!chain)
        return -ENOMEM;
    chain->step_count = step_count;
    chain->result = 1;
    *ret_chain = chain;
    return 0;
}

void chain_set(struct chain *chain, uint32_t first, const struct chain_step *steps, uint32_t count)
{
    for (uint32_t i = first; i < first + count; i++) {
        const struct chain_step *step = &steps[i - first];
        chain->slots[i].step = *step;
        chain->slots[i].op.done = put_done;
        chain->slots[i].chain = chain;
        if (step->kind == CHAIN_PUT || step->kind == CHAIN_WAIT)
            chain->tail = i + 1;
    }
    chain->single = chain->step_count == 1 && chain->slots[0].step.kind == CHAIN_PUT;
}

int chain_new(const struct chain_step *steps, uint32_t step_count, struct chain **ret_chain)
{
    int r = chain_new_empty(step_count, ret_chain);
    if (r == 0)
        chain_set(*ret_chain, 0, steps, step_count);
    return r;
}

struct chain *chain_free(struct chain *chain)
{
    assert(!chain || !chain->running);
    free(chain);
    return NULL;
}

static int post_failed(struct chain *chain, struct chain_slot *slot, int error)
{
    chain->in_flight--;
    if (error == -EAGAIN)
        slot->refused = chain->refused = true;
    else if (chain->error == 0)
        chain->error = error;
    return error;
}

static int post_other(const struct chain_step *step, struct driver_op *op)
{
    if (step->kind == CHAIN_FENCE) {
        op->done(op, 0);
        return 0;
    }
    return step->flush.driver->ops->peer_flush(step->flush.driver, step->flush.peer, op);
}

/* Posts a step. 0, or -EAGAIN: try again later. Any other error ends the chain. */
static inline int post(struct chain *chain, struct chain_slot *slot)
{
    const struct chain_step *step = &slot->step;

    if (step->fence && chain->in_flight > 0)
        return -EAGAIN;
    slot->op.retries = 0; /* drivers count no retries before -EAGAIN */
    chain->in_flight++;   /* done() may be called before put_post() returns */
    int r = __builtin_expect(step->kind == CHAIN_PUT, 1)
                ? step->put.driver->ops->put_post(step->put.driver, step->put.put, &slot->op)
                : post_other(step, &slot->op);
    return __builtin_expect(r < 0, 0) ? post_failed(chain, slot, r) : 0;
}

static int finish(struct chain *chain)
{
    chain->running = false;
    chain->result = chain->error < 0 ? chain->error : 1;
    return chain->result;
}

static bool arrived(const struct chain_step *step)
{
    if (step->wait.counter)
        return counter_value(step->wait.counter) >= step->wait.count;
    return notify_arrived(step->wait.line) -
               atomic_load_explicit(step->wait.taken, memory_order_relaxed) >=
           step->wait.count;
}

static bool may_take(const struct chain_step *step)
{
    return arrived(step) && (!step->wait.may_take || step->wait.may_take(step->wait.context, step));
}

static bool take(const struct chain_step *step)
{
    if (step->wait.may_take && !may_take(step))
        return false;
    return step->wait.counter ? counter_take(step->wait.counter, step->wait.count)
                              : notify_take(step->wait.line, step->wait.taken, step->wait.count);
}

static bool is_gone(const struct chain_step *step)
{
    return step->gone && atomic_load_explicit(step->gone, memory_order_relaxed);
}

/* Whether to go on waiting for notifications that have not arrived. If not, sets the chain's
 * error. */
static __attribute__((noinline)) bool may_wait(struct chain *chain, const struct chain_step *step)
{
    int error = chain->hurry;
    if (error == 0 && is_gone(step))
        error = chain->lost;
    chain->error = error;
    return error == 0;
}

static inline int advance(struct chain *chain)
{
    while (chain->next < chain->step_count && chain->error == 0) {
        struct chain_slot *slot = &chain->slots[chain->next];
        if (slot->step.kind == CHAIN_WAIT) {
            if (!take(&slot->step)) {
                if (may_wait(chain, &slot->step))
                    return 0;
                break;
            }
        } else if (post(chain, slot) == -EAGAIN) {
            return 0;
        }
        chain->next++;
    }
    return chain->in_flight > 0 ? 0 : finish(chain);
}

/* As advance() from the start, for the most frequent chain. */
static inline int start_single(struct chain *chain)
{
    if (__builtin_expect(post(chain, chain->slots) == -EAGAIN, 0))
        return 0;
    chain->next = 1;
    return chain->in_flight > 0 ? 0 : finish(chain);
}

int chain_start(struct chain *chain)
{
    if (chain->running)
        return -EBUSY;
    if (chain->refused) {
        for (uint32_t i = 0; i < chain->step_count; i++)
            chain->slots[i].refused = false;
        chain->refused = false;
    }
    chain->running = true;
    chain->next = 0;
    chain->error = 0;
    chain->fault = 0;
    return chain->single ? start_single(chain) : advance(chain);
}

int chain_run(struct chain *chain)
{
    return chain->running ? advance(chain) : chain->result;
}

void chain_cancel(struct chain *chain, int error)
{
    if (chain->running && chain->error == 0 && chain->next < chain->tail)
        chain->error = error < 0 ? error : -ECANCELED;
}

void chain_lose(struct chain *chain, int error)
{
    chain->lost = error;
    for (uint32_t i = 0; chain->running && i < chain->next; i++) {
        const struct chain_step *step = &chain->slots[i].step;
        if (step->kind == CHAIN_PUT && is_gone(step) && step->put.driver->ops->put_stop)
            step->put.driver->ops->put_stop(step->put.driver, step->put.put, error);
    }
    for (uint32_t i = chain->next; chain->running && chain->error == 0 && i < chain->tail; i++) {
        const struct chain_step *step = &chain->slots[i].step;
        if (is_gone(step) && (step->kind != CHAIN_WAIT || !arrived(step)))
            chain->error = error;
    }
}

void chain_hurry(struct chain *chain, int error)
{
    chain->hurry = error;
}

bool chain_at_first_wait(const struct chain *chain)
{
    return chain->next == 0 && chain_idle(chain);
}

void chain_unstart(struct chain *chain)
{
    chain->running = false;
    chain->result = 1;
}

uint32_t chain_retries(const struct chain *chain)
{
    uint32_t retries = 0;
    for (uint32_t i = 0; i < chain->step_count && i <= chain->next; i++) {
        const struct chain_slot *slot = &chain->slots[i];
        retries += slot->refused;
        if (i < chain->next)
            retries += slot->op.retries;
    }
    return retries;
}

uint32_t chain_fault(const struct chain *chain)
{
    return chain->fault;
}

uint64_t chain_posted_ns(const struct chain *chain)
{
    uint64_t posted_ns = 0;
    for (uint32_t i = 0; i < chain->next; i++)
        if (chain->slots[i].step.kind == CHAIN_PUT && chain->slots[i].op.posted_ns > posted_ns)
            posted_ns = chain->slots[i].op.posted_ns;
    return posted_ns;
}

uint32_t chain_hops(const struct chain *chain)
{
    uint32_t hops = 0;
    for (uint32_t i = 0; i < chain->next; i++)
        if (chain->slots[i].step.kind == CHAIN_PUT && chain->slots[i].op.hops > hops)
            hops = chain->slots[i].op.hops;
    return hops;
}

bool chain_waiting(const struct chain *chain)
{
    return chain->running && chain->error == 0 && chain->next < chain->step_count &&
           chain->slots[chain->next].step.kind == CHAIN_WAIT;
}

const struct notify_line *chain_waits_for(const struct chain *chain)
{
    return chain_waiting(chain) ? chain->slots[chain->next].step.wait.line : NULL;
}

bool chain_idle(const struct chain *chain)
{
    return chain_waiting(chain) && chain->in_flight == 0;
}

bool chain_ready(const struct chain *chain)
{
    if (!chain_waiting(chain))
        return false;
    return may_take(&chain->slots[chain->next].step);
}

bool chain_all_posted(const struct chain *chain)
{
    return !chain->running || chain->error < 0 || chain->next == chain->step_count;
}
