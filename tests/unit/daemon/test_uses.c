/* Who needs what: against plain arrays, and while users come and go as they are told. */
#include "daemon/sessions/uses.h"

#include <criterion/criterion.h>
#include <stdlib.h>

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

/* Every third stays; one that has not been told yet goes meanwhile, and a new one comes. */
static bool tell(const struct news *news, void *context)
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
    uses_tell(&uses, &(struct news){.key = key(1), .tell = tell});
}

Test(uses, are_told_once, .init = set_up, .fini = tear_down)
{
    for (int i = 0; i < USERS / 2; i++)
        add(&users[i], 1);
    bool dropped[USERS] = {false};
    tell_all(NULL);
    cr_assert_eq(loop_post(loop, stop, loop), 0);
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
