#include "daemon/rails/comeback.h"

void comeback_lost(struct comeback *comeback, uint64_t now_ns)
{
    const bool lately = comeback->losses > 0 && now_ns - comeback->lost_ns < COMEBACK_FORGET_NS;
    *comeback = (struct comeback){.losses = lately ? comeback->losses + 1 : 1, .lost_ns = now_ns};
}

static uint64_t hold_ns(const struct comeback *comeback, uint64_t return_after_ns)
{
    const uint32_t again = comeback->losses > 0 ? comeback->losses - 1 : 0;
    return return_after_ns << (again < COMEBACK_DOUBLINGS_MAX ? again : COMEBACK_DOUBLINGS_MAX);
}

enum comeback_state comeback_look(struct comeback *comeback, bool leads, uint64_t now_ns,
                                  uint64_t return_after_ns)
{
    if (!leads) {
        comeback->since_ns = 0;
        comeback->proved = false;
    } else if (comeback->since_ns == 0) {
        comeback->since_ns = now_ns;
    }
    if (comeback->since_ns == 0 || now_ns - comeback->since_ns < hold_ns(comeback, return_after_ns))
        return COMEBACK_AWAY;
    if (comeback->proved)
        return COMEBACK_BACK;
    return comeback->proving ? COMEBACK_AWAY : COMEBACK_PROVE;
}

void comeback_asked(struct comeback *comeback)
{
    comeback->proving = true;
}

void comeback_answered(struct comeback *comeback, bool good)
{
    comeback->proving = false;
    comeback->proved = good && comeback->since_ns != 0;
    if (!good)
        comeback->since_ns = 0;
}
