/* Long work on the loop: in slices, between which other events are served. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "daemon/base/loop.h"

TestSuite(loop_turn, .timeout = 60);

enum { STEPS = 12, POSTS = 100 };

struct work {
    struct loop *loop;
    struct loop_job job;
    int steps, steps_max;
    bool long_ones, over;
};

static bool step(void *context)
{
    struct work *work = context;
    while (work->long_ones && !loop_slice_over(work->loop))
        ;
    work->over = ++work->steps == work->steps_max;
    return !work->over;
}

static struct loop *loop;
static struct work works[2];
static int posts, posts_meanwhile;

static void post(void (*call)(void *context), void *context)
{
    static struct loop_post places[2 * POSTS];
    static unsigned used;
    cr_assert_lt(used, 2 * POSTS);
    loop_post_own(loop, &places[used++], call, context);
}

static void somebody_else(void *context)
{
    posts++;
    posts_meanwhile += !works[0].over || !works[1].over;
    if (posts < POSTS)
        post(somebody_else, NULL);
    else
        loop_stop(loop);
}

static void begin_long(void *context)
{
    for (int i = 0; i < 2; i++) {
        works[i] = (struct work){.loop = loop, .steps_max = STEPS, .long_ones = true};
        loop_job_begin(loop, &works[i].job, step, &works[i]);
        cr_assert_not(works[i].over);
    }
    post(somebody_else, NULL);
}

Test(loop_turn, others_have_a_turn_between_slices)
{
    cr_assert_eq(loop_new(&loop), 0);
    post(begin_long, NULL);
    cr_assert_eq(loop_run(loop), 0);
    cr_assert(works[0].over && works[1].over);
    cr_assert_eq(works[0].steps, STEPS);
    cr_assert_eq(works[1].steps, STEPS);
    cr_assert_geq(loop_slices(loop), 2 * STEPS);
    cr_assert_geq(posts_meanwhile, STEPS, "%d posts had a turn before the jobs were over",
                  posts_meanwhile);
    loop_free(loop);
}

static void begin_short(void *context)
{
    works[0] = (struct work){.loop = loop, .steps_max = 1};
    loop_job_begin(loop, &works[0].job, step, &works[0]);
    cr_assert(works[0].over, "what is short is over when it returns");
    loop_stop(loop);
}

Test(loop_turn, short_work_is_done_at_once)
{
    cr_assert_eq(loop_new(&loop), 0);
    post(begin_short, NULL);
    cr_assert_eq(loop_run(loop), 0);
    cr_assert(works[0].over);
    loop_free(loop);
}

static int order[POSTS];

static void note(void *context)
{
    order[posts++] = (int)(uintptr_t)context;
}

static void post_more(void *context)
{
    works[0] = (struct work){.loop = loop, .steps_max = STEPS, .long_ones = true};
    loop_job_begin(loop, &works[0].job, step, &works[0]);
    for (uintptr_t i = 1; i < POSTS; i++)
        post(note, (void *)i);
}

Test(loop_turn, what_is_left_is_finished_in_order)
{
    cr_assert_eq(loop_new(&loop), 0);
    post(note, NULL);
    post(post_more, NULL);
    loop_finish_posts(loop);
    cr_assert(works[0].over);
    cr_assert_eq(posts, POSTS);
    for (int i = 0; i < POSTS; i++)
        cr_assert_eq(order[i], i);
    loop_free(loop);
}

/* Posts inside memory that the call frees. */
struct parcel {
    struct loop_post post;
    int number;
};

static void unpack(void *context)
{
    struct parcel *parcel = context;
    const int number = parcel->number;
    memset(parcel, 0x5a, sizeof(*parcel)); /* nobody looks at it any more */
    free(parcel);
    note((void *)(uintptr_t)number);
}

/* Sanitizers allocate, and would fail instead. */
static void use_up_memory(void)
{
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    const struct rlimit none = {0, 0};
    void *volatile left; /* else a compiler may leave out what nobody uses */
    cr_assert_eq(setrlimit(RLIMIT_AS, &none), 0);
    do
        left = malloc(16);
    while (left);
#endif
}

Test(loop_turn, own_posts_need_no_memory_and_keep_their_place)
{
    struct parcel *parcels[POSTS];
    cr_assert_eq(loop_new(&loop), 0);
    for (int i = 0; i < POSTS; i += 2) {
        cr_assert_not_null(parcels[i] = malloc(sizeof(*parcels[i])));
        parcels[i]->number = i;
    }
    use_up_memory();
    for (int i = 0; i < POSTS; i += 2)
        loop_post_own(loop, &parcels[i]->post, unpack, parcels[i]);
    loop_finish_posts(loop);
    cr_assert_eq(posts, (POSTS + 1) / 2);
    for (int i = 0; i < posts; i++)
        cr_assert_eq(order[i], 2 * i);
}

enum { ROUNDS = 20000 };

static sem_t answered;

static void answer(void *context)
{
    if (*(int *)context % 2)
        loop_expect(
            loop); /* in vain, as often as not: the loop looks a while longer, then sleeps */
    sem_post(&answered);
}

/* The loop is about to sleep whenever the next post comes: at once, or a little later. */
static void *post_to_sleeper(void *context)
{
    static struct loop_post place;
    for (int i = 0; i < ROUNDS; i++) {
        for (int yields = i % 7; yields > 0; yields--)
            sched_yield();
        loop_post_own(loop, &place, answer, &i);
        sem_wait(&answered);
    }
    loop_post_own(loop, &place, (void (*)(void *))loop_stop, loop);
    return NULL;
}

Test(loop_turn, no_post_of_another_thread_is_overlooked)
{
    pthread_t poster;
    sem_init(&answered, 0, 0);
    cr_assert_eq(loop_new(&loop), 0);
    cr_assert_eq(pthread_create(&poster, NULL, post_to_sleeper, NULL), 0);
    cr_assert_eq(loop_run(loop), 0);
    pthread_join(poster, NULL);
    loop_free(loop);
}
