#include "client/forks.h"

#include <pthread.h>

#include "client/core/helper.h"
#include "client/memory/inplace.h"

static void before(void)
{
    helper_before_fork();
    inplace_before_fork();
}

static void after(void)
{
    inplace_after_fork();
    helper_after_fork();
}

static void in_child(void)
{
    inplace_in_child(); /* first: what the others store to may be shared with the parent */
    helper_in_child();
}

static void begin(void)
{
    pthread_atfork(before, after, in_child);
}

void forks_handle(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, begin);
}
