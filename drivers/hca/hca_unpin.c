/*
 * The thread that deregisters recalled memory. The kernel unpins a region page by page, which takes
 * milliseconds for a long one, and only the polling thread finds out that the last peer has stopped
 * writing to it: without this thread, all users' puts would wait. Memory that was not recalled is
 * deregistered by whoever removes it: in tcad, the thread that has registered it.
 *
 * A process (drivers/seat.h) has no such thread. It frees memory of its own, in its own time.
 */
#include "drivers/hca/hca.h"
#include "proto/thread.h"

/* In the order in which they came: the parts of a region before it. */
static void *run(void *context)
{
    struct hca_driver *hca = context;
    pthread_mutex_lock(&hca->lock);
    while (hca->unused || !hca->unpinner_ends) {
        struct hca_region *region = hca->unused;
        if (!region) {
            pthread_cond_wait(&hca->unused_any, &hca->lock);
            continue;
        }
        hca->unused = region->next;
        if (!hca->unused)
            hca->unused_last = &hca->unused;
        pthread_mutex_unlock(&hca->lock);
        hca_region_free(hca, region);
        pthread_mutex_lock(&hca->lock);
    }
    pthread_mutex_unlock(&hca->lock);
    return NULL;
}

int hca_unpin_init(struct hca_driver *hca)
{
    int r = thread_begin(&hca->unpinner, "tcad-hca", run, hca);
    hca->unpins = r == 0;
    return r;
}

void hca_unpin_deinit(struct hca_driver *hca)
{
    if (!hca->unpins)
        return;
    pthread_mutex_lock(&hca->lock);
    hca->unpinner_ends = true;
    pthread_cond_signal(&hca->unused_any);
    pthread_mutex_unlock(&hca->lock);
    pthread_join(hca->unpinner, NULL);
}

void hca_unpin(struct hca_driver *hca, struct hca_region *region)
{
    if (!hca->unpins) {
        hca_region_free(hca, region);
        return;
    }
    region->next = NULL;
    pthread_mutex_lock(&hca->lock);
    *hca->unused_last = region;
    hca->unused_last = &region->next;
    pthread_cond_signal(&hca->unused_any);
    pthread_mutex_unlock(&hca->lock);
}
