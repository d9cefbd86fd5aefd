#include "drivers/unpinner.h"

#include "proto/thread.h"

void unpinner_init(struct unpinner *unpinner, void (*release)(void *context, struct unpin *region),
                   void *context)
{
    *unpinner = (struct unpinner){.release = release, .context = context, .last = &unpinner->first};
    pthread_mutex_init(&unpinner->mutex, NULL);
    pthread_cond_init(&unpinner->news, NULL);
}

static void *run(void *context)
{
    struct unpinner *unpinner = context;
    pthread_mutex_lock(&unpinner->mutex);
    while (unpinner->first || !unpinner->ends) {
        struct unpin *region = unpinner->first;
        if (!region) {
            pthread_cond_wait(&unpinner->news, &unpinner->mutex);
            continue;
        }
        unpinner->first = region->next;
        if (!unpinner->first)
            unpinner->last = &unpinner->first;
        pthread_mutex_unlock(&unpinner->mutex);
        unpinner->release(unpinner->context, region);
        pthread_mutex_lock(&unpinner->mutex);
    }
    pthread_mutex_unlock(&unpinner->mutex);
    return NULL;
}

int unpinner_start(struct unpinner *unpinner, const char *name)
{
    int r = thread_begin(&unpinner->thread, name, run, unpinner);
    unpinner->runs = r == 0;
    return r;
}

void unpinner_stop(struct unpinner *unpinner)
{
    if (!unpinner->runs)
        return;
    pthread_mutex_lock(&unpinner->mutex);
    unpinner->ends = true;
    pthread_cond_signal(&unpinner->news);
    pthread_mutex_unlock(&unpinner->mutex);
    pthread_join(unpinner->thread, NULL);
    unpinner->runs = false;
}

void unpinner_deinit(struct unpinner *unpinner)
{
    unpinner_stop(unpinner);
    pthread_cond_destroy(&unpinner->news);
    pthread_mutex_destroy(&unpinner->mutex);
}

void unpinner_give(struct unpinner *unpinner, struct unpin *region)
{
    if (!unpinner->runs) {
        unpinner->release(unpinner->context, region);
        return;
    }
    region->next = NULL;
    pthread_mutex_lock(&unpinner->mutex);
    *unpinner->last = region;
    unpinner->last = &region->next;
    pthread_cond_signal(&unpinner->news);
    pthread_mutex_unlock(&unpinner->mutex);
}
