/* Uses of objects: compared with plain arrays, while users come and go during the notifications. */
#include "daemon/sessions/uses.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "failing.h"

TestSuite(uses, .timeout = 60);

enum { USERS = 4000, SUBJECTS = 40 };

struct user {
    struct use use;
    int subject; /* -1: none */
    int told;
};

static struct user users[USERS];
static struct loop *loop;
static struct uses uses;

static struct subject_key key(int subject)
{
    return (struct subject_key){
        .kind = (enum subject_kind)(subject % 4), .node = (uint32_t)subject / 4, .id = 7};
}

static void set_up(void)
{
    cr_assert_eq(loop_new(&loop), 0);
    uses.loop = loop;
    for (int i = 0; i < USERS; i++)
        users[i].subject = -1;
    srandom(3);
}

static void tear_down(void)
{
    for (int i = 0; i < USERS; i++)
        use_drop(&uses, &users[i].use);
    uses_deinit(&uses); /* asserts that nothing is left */
    loop_free(loop);
}

static void add(struct user *user, int subject)
{
    cr_assert_eq(use_add(&uses, &user->use, key(subject), user), 0);
    user->subject = subject;
    cr_assert(uses_last_is(&uses, key(subject), user));
}

static void drop(struct user *user)
{
    use_drop(&uses, &user->use);
    use_drop(&uses, &user->use); /* of nothing, it stays so */
    user->subject = -1;
}

static void count(void *context, void *user)
{
    cr_assert_eq(((struct user *)user)->subject, ((int *)context)[0]);
    ((int *)context)[1]++;
}

static void check(int subject)
{
    int counted[2] = {subject, 0}, in = 0;
    for (int i = 0; i < USERS; i++)
        in += users[i].subject == subject;
    uses_each(&uses, key(subject), count, counted);
    cr_assert_eq(counted[1], in);
}

Test(uses, are_what_arrays_are, .init = set_up, .fini = tear_down)
{
    for (int round = 0; round < 50000; round++) {
        struct user *user = &users[random() % USERS];
        if (user->subject < 0)
            add(user, (int)(random() % SUBJECTS));
        else
            drop(user);
        if (round % 500 == 0)
            check((int)(random() % SUBJECTS));
    }
}

/* Every third stays; one that was not notified yet goes meanwhile, and a new one comes. */
static bool tell(const struct use_event *event, void *context)
{
    struct user *user = context;
    const int i = (int)(user - users);
    cr_assert_eq(user->told, 0, "user %d was told twice", i);
    cr_assert_eq(user->subject, 1);
    user->told = 1;
    if (i >= 2 && i < USERS / 2 && users[i - 1].told == 0 && i % 5 == 0)
        drop(&users[i - 1]);
    if (users[USERS / 2 + i].subject < 0)
        add(&users[USERS / 2 + i], 1);
    if (i % 3 == 0)
        return true;
    user->subject = -1;
    return false;
}

static void stop(void *context)
{
    loop_stop(context);
}

static void tell_all(void *context)
{
    uses_notify(&uses, &(struct use_event){.key = key(1), .notify = tell});
}

Test(uses, are_told_once, .init = set_up, .fini = tear_down)
{
    for (int i = 0; i < USERS / 2; i++)
        add(&users[i], 1);
    bool dropped[USERS] = {false};
    tell_all(NULL);
    loop_post_own(loop, &(struct loop_post){0}, stop, loop);
    loop_finish_posts(loop); /* the slices that are left */
    for (int i = 0; i < USERS / 2; i++) {
        dropped[i] = users[i].told == 0;
        cr_assert(!dropped[i] || i % 5 == 4, "user %d was not told", i);
        cr_assert_eq(users[i].subject, !dropped[i] && i % 3 == 0 ? 1 : -1);
    }
    for (int i = USERS / 2; i < USERS; i++)
        cr_assert_eq(users[i].told, 0, "user %d came later", i);
    check(1);
}

/* ---- several events of one subject, in succession ---- */

static char news_heard[USERS][4];

static bool hear(const struct use_event *event, void *context)
{
    struct user *user = context;
    char *at = news_heard[user - users];
    while (*at)
        at++;
    *at = (char)('a' + event->error);
    const bool stays = event->error < 2;
    if (!stays)
        user->subject = -1;
    return stays;
}

/* Including users that were not notified of the first event when the second comes, and without
 * memory to record it for them. The last third comes later. */
static void tell_three(bool without_memory)
{
    memset(news_heard, 0, sizeof(news_heard));
    for (int i = 0; i < USERS * 2 / 3; i++)
        add(&users[i], 1);
    for (int error = 0; error < 3; error++) {
        atomic_store(&no_memory, without_memory && error > 0);
        uses_notify(&uses, &(struct use_event){.key = key(1), .error = error, .notify = hear});
        atomic_store(&no_memory, false);
        if (error == 0)
            add(&users[USERS - 1], 1);
    }
    for (int i = USERS * 2 / 3; i < USERS - 1; i++)
        add(&users[i], 1);
    loop_finish_posts(loop);
    for (int i = 0; i < USERS - 1; i++)
        cr_assert_str_eq(news_heard[i], i < USERS * 2 / 3 ? "abc" : "", "user %d", i);
    cr_assert_str_eq(news_heard[USERS - 1], "bc");
    check(1);
}

static bool nothing_more(void *context)
{
    return false;
}

/* Another job is queued, so that no notification comes at once. */
static void begin_another_job(void)
{
    static struct loop_job jobs[2];
    static int spin;
    for (spin = 0; !loop_slice_over(loop);)
        spin++;
    loop_job_begin(loop, &jobs[0], nothing_more, NULL);
}

Test(uses, hear_all_news_in_order, .init = set_up, .fini = tear_down)
{
    begin_another_job();
    tell_three(false);
}

Test(uses, hear_all_news_without_memory, .init = set_up, .fini = tear_down)
{
    if (!CAN_FAIL)
        cr_skip_test("a sanitizer's malloc() does not fail");
    begin_another_job();
    tell_three(true);
    cr_assert_eq(refused, 2);
}
