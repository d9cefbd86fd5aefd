/*
 * What the engines of a daemon know of each other: only who sleeps while starts wait there. A
 * client that has raised a line of another session writes the eventfd of its own, which wakes its
 * own engine; and an engine can raise lines of sessions of others. So an engine that has learned of
 * either wakes those. No start needs that while the engines are awake.
 */
#include <sys/eventfd.h>

#include "daemon/engine/engine_internal.h"

void engines_introduce(struct engine *const *engines, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        engines[i]->all = engines;
        engines[i]->count = count;
    }
}

void engine_set_awaits(struct engine *engine, bool awaits)
{
    if (engine->config.several)
        atomic_store(&engine->awaits, awaits); /* before its sessions are armed */
}

bool engine_others_await(const struct engine *engine)
{
    for (unsigned i = 0; i < engine->count; i++)
        if (engine->all[i] != engine &&
            atomic_load_explicit(&engine->all[i]->awaits, memory_order_relaxed))
            return true;
    return false;
}

void engine_wake_others(struct engine *engine)
{
    for (unsigned i = 0; i < engine->count; i++)
        if (engine->all[i] != engine && atomic_load(&engine->all[i]->awaits))
            eventfd_write(engine->all[i]->call_fd, 1);
}

void engine_notified(struct engine *engine, struct notify_segment *segment)
{
    if (atomic_exchange(&segment->engine_armed, 0))
        engine_wake_others(engine);
}
