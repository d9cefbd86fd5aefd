#include "daemon/base/signals.h"

#include <signal.h>
#include <stddef.h>

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static const int ending[] = {SIGTERM, SIGINT, SIGHUP};
static const int taken[] = {SIGTERM, SIGINT, SIGHUP, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};

static sigset_t mask_at_start;
static struct sigaction actions_at_start[COUNT(taken)];

static void block(sigset_t *ret_before)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < COUNT(ending); i++)
        sigaddset(&set, ending[i]);
    sigprocmask(SIG_BLOCK, &set, ret_before);
}

/* Sanitizers are not ready yet. */
__attribute__((no_sanitize("address", "thread", "undefined"))) static void before_constructors(void)
{
    block(&mask_at_start);
    for (size_t i = 0; i < COUNT(taken); i++)
        sigaction(taken[i], NULL, &actions_at_start[i]);
}

__attribute__((section(".preinit_array"),
               used)) static void (*const entry)(void) = before_constructors;

#ifdef __SANITIZE_ADDRESS__
/* Its handler of SIGSEGV stays, too. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "handle_segv=2";
}
#endif

void signals_take_back(void)
{
    for (size_t i = 0; i < COUNT(taken); i++)
        sigaction(taken[i], &actions_at_start[i], NULL);
}

void signals_unblock(void)
{
    sigprocmask(SIG_SETMASK, &mask_at_start, NULL);
}

void signals_block(void)
{
    block(NULL);
}
