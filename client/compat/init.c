/* Initialisation, and what happens at exit. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/compat/channel.h"
#include "client/compat/device/device.h"
#include "client/compat/meet.h"
#include "client/compat/notice.h"
#include "client/compat/stores.h"
#include "client/compat/turn.h"

enum { SECOND_NS = 1000 * 1000 * 1000 };
#define INIT_TIMEOUT_NS (60ll * SECOND_NS)
/* A lost rail is given up after three seconds; then the next one is used. */
#define EXIT_TIMEOUT_NS (5ll * SECOND_NS)

struct compat compat;
/* The process that called tcaInit(). At exit, a child must not wait for its parent's starts. */
static _Atomic pid_t owner;

/* Prints the error, because no call is left to return it. */
static void complain(void)
{
    fprintf(stderr, "tca: rank %u: at exit: %s\n", compat.rank, compat_last_text());
}

/* Waits for what was started, because a sender may exit right after its last start. The daemon
 * frees the rest. */
static void at_exit(void)
{
    if (getpid() != owner)
        return;
    TAKE_TURN();
    channels_finish(EXIT_TIMEOUT_NS);
    while (channels_tell() != TCA_SUCCESS)
        complain();
    if (stores_finish("exit", EXIT_TIMEOUT_NS) != TCA_SUCCESS)
        complain();
    device_close();
}

static tcaresult open_session(void)
{
    const char *timeout = getenv("TCA_TIMEOUT");
    const struct tca_open_args args = {.timeout_ns = timeout && timeout[0] ? 0 : INIT_TIMEOUT_NS};
    int r = tca_open(&args, &compat.session);
    if (r == -ETIMEDOUT)
        return compat_fail(TCA_ERROR_SYSTEM,
                           "tcaInit: %s: every process of the job must call tcaInit(), even if it "
                           "puts nothing (TCA_TIMEOUT sets how long the others wait)",
                           tca_error_text());
    if (r < 0)
        return compat_fail_errno(r, "tcaInit");
    compat.rank = tca_rank(compat.session);
    compat.size = tca_size(compat.session);
    compat.node = tca_node(compat.session);
    return TCA_SUCCESS;
}

/* The caller has the turn. */
static tcaresult begin(void)
{
    tcaresult result = open_session();
    if (result == TCA_SUCCESS)
        result = notices_open();
    if (result == TCA_SUCCESS)
        result = device_open();
    if (result == TCA_SUCCESS)
        owner = getpid();
    else
        compat.session = tca_close(compat.session);
    return result;
}

TCA_API tcaresult tcaInit(void)
{
    static atomic_flag registered = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&registered))
        atexit(at_exit);
    return meet_others(begin);
}

TCA_API void *tcaGetSession(void)
{
    TAKE_TURN();
    return compat.session;
}

TCA_API tcaresult tcaReset(void)
{
    TAKE_TURN();
    if (!compat.session)
        return TCA_SUCCESS;
    channels_finish(TCA_FOREVER);
    channels_empty();
    programs_trim();
    return channels_tell();
}
