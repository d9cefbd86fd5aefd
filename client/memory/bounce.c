#include "client/memory/bounce.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/core/segment.h"
#include "client/core/session.h"
#include "client/memory/mapping.h"
#include "client/memory/region_memory.h"
#include "drivers/copy/copy.h"
#include "proto/limits.h"
#include "proto/notify.h"
#include "proto/thread.h"

enum {
    BUCKETS = 256,
    PIECE_BYTES = 1 << 20, /* copied under the mutex, for which freeing a region waits */
};

/* One layout in an attached region and in its staging memory. */
struct bounce {
    struct bounce *next; /* in its bucket */
    uint32_t id;
    uint64_t region;
    struct copy_program *program;
    uint64_t size_bytes;
    uint8_t *to;
    const uint8_t *from;
};

/* The staging memory of an attached region. */
struct bounce_memory {
    struct bounce_memory *next;
    uint64_t region;
    void *base;
    uint64_t bytes;
};

struct bounces {
    pthread_t thread;
    _Atomic bool stop;
    struct bounce_memory *memories; /* session's thread only */
    /* bounce thread only */
    struct ring rings[BOUNCE_WAYS];
    _Atomic uint32_t *bell;
    int engine_fd;
    /* under the mutex */
    pthread_mutex_t mutex;
    struct bounce *buckets[BUCKETS];
    uint32_t newest; /* id of the newest bounce added */
};

static void ring_bell(struct bounces *bounces)
{
    /* release: earlier changes; pairs with the acquire in bounce_main() */
    atomic_fetch_add_explicit(bounces->bell, 1, memory_order_release);
    futex_wake_all(bounces->bell);
}

/* ---- the thread ---- */

static struct bounce **find(struct bounces *bounces, uint32_t id)
{
    struct bounce **at = &bounces->buckets[id % BUCKETS];
    while (*at && (*at)->id != id)
        at = &(*at)->next;
    return at;
}

/* Copies the next piece of a bounce and advances *position_bytes. 1: complete, or the bounce was
 * removed; 0: more to copy; -EAGAIN: the bounce was not added yet. */
static int copy_piece(struct bounces *bounces, uint32_t id, uint64_t *position_bytes)
{
    int r = 1;
    pthread_mutex_lock(&bounces->mutex);
    const struct bounce *bounce = *find(bounces, id);
    if (bounce) {
        const uint64_t left = bounce->size_bytes - *position_bytes,
                       piece = left < PIECE_BYTES ? left : PIECE_BYTES;
        copy_program_run(bounce->program, bounce->to, bounce->from, *position_bytes, piece);
        *position_bytes += piece;
        r = piece == left;
    } else if ((int32_t)(id - bounces->newest) > 0) {
        r = -EAGAIN;
    }
    pthread_mutex_unlock(&bounces->mutex);
    return r;
}

/* Serves the next request of a ring. False: none, or not possible yet. */
static bool serve(struct bounces *bounces, enum bounce_way way)
{
    struct ring *ring = &bounces->rings[way];
    uint32_t id;
    uint64_t position_bytes = 0;
    int r = ring_peek(ring, &id);
    if (r <= 0)
        return false; /* only the daemon writes here; other checks detect a corrupt one */
    for (r = id == 0; r == 0;)
        r = copy_piece(bounces, id, &position_bytes);
    if (r < 0)
        return false;
    ring_pop(ring, &id);
    eventfd_write(bounces->engine_fd, 1);
    return true;
}

static void *bounce_main(void *argument)
{
    struct bounces *bounces = argument;
    while (!atomic_load_explicit(&bounces->stop, memory_order_relaxed)) {
        /* acquire: pairs with the release in ring_bell() and in the daemon */
        const uint32_t bell = atomic_load_explicit(bounces->bell, memory_order_acquire);
        const bool out = serve(bounces, BOUNCE_OUT), in = serve(bounces, BOUNCE_IN);
        if (!out && !in && !atomic_load_explicit(&bounces->stop, memory_order_relaxed))
            futex_wait(bounces->bell, bell, -1);
    }
    return NULL;
}

static int begin(struct tca *session)
{
    struct bounces *bounces = calloc(1, sizeof(*bounces));
    if (!bounces)
        return -ENOMEM;
    for (int way = 0; way < BOUNCE_WAYS; way++)
        ring_init(&bounces->rings[way], &session->segment->bounce[way],
                  session->segment->bounce_entries[way], sizeof(uint32_t), BOUNCE_ENTRIES);
    bounces->bell = &session->segment->bounce_bell;
    bounces->engine_fd = session->engine_fd;
    pthread_mutex_init(&bounces->mutex, NULL);
    int r = thread_begin(&bounces->thread, "tca-bounce", bounce_main, bounces);
    if (r < 0) {
        pthread_mutex_destroy(&bounces->mutex);
        free(bounces);
        return r;
    }
    session->bounces = bounces;
    return 0;
}

/* ---- the session's thread ---- */

static struct bounce_memory **find_memory(struct bounces *bounces, uint64_t region)
{
    struct bounce_memory **at = &bounces->memories;
    while (*at && (*at)->region != region)
        at = &(*at)->next;
    return at;
}

/* Only whole huge pages can be unmapped. */
static uint64_t round_up(uint64_t bytes, uint32_t pages)
{
    const uint64_t page = pages == REGION_PAGES_HUGE ? 2 << 20 : 1;
    return (bytes + page - 1) / page * page;
}

/* The staging memory of a region. Its descriptor comes with the region's first bounce. */
static int take_memory(struct bounces *bounces, const Tca__Bounce *told,
                       const struct mapped_region *region, struct frame *frame, uint8_t **ret_base)
{
    struct bounce_memory **at = find_memory(bounces, told->region);
    if (!*at) {
        if (told->fd == 0 || told->fd > frame->fd_count)
            return -EPROTO;
        struct bounce_memory *memory = calloc(1, sizeof(*memory));
        if (!memory)
            return -ENOMEM;
        *memory = (struct bounce_memory){.region = told->region,
                                         .bytes = round_up(region->bytes, told->pages)};
        int r = segment_map(frame->fds[told->fd - 1], 0, memory->bytes, "staging memory",
                            &memory->base);
        if (r == 0 && (r = region_memory_make(frame->fds[told->fd - 1], memory->base, memory->bytes,
                                              told->pages, "staging memory")) < 0)
            munmap(memory->base, memory->bytes);
        if (r < 0) {
            free(memory);
            return r;
        }
        *at = memory;
    }
    *ret_base = (*at)->base;
    return 0;
}

static struct bounce *bounce_free(struct bounce *bounce)
{
    copy_program_free(bounce->program);
    free(bounce);
    return NULL;
}

static int compile(const Tca__Bounce *told, const struct mapped_region *region, uint8_t *memory,
                   struct bounce *bounce)
{
    const struct layout *layout =
        (const struct layout *)told->layout.data; /* aligned: protobuf-c allocates it */
    if (layout_check(layout, told->layout.len, NULL) < 0 ||
        !layout_fits(layout, told->offset, region->bytes))
        return -EPROTO;
    uint8_t *const ours = region->base + told->offset, *const theirs = memory + told->offset;
    bounce->id = told->id;
    bounce->region = told->region;
    bounce->size_bytes = layout->size_bytes;
    bounce->to = told->in ? ours : theirs;
    bounce->from = told->in ? theirs : ours;
    return copy_program_new_run(layout, layout, &bounce->program);
}

static int add(struct tca *session, const Tca__Bounce *told, struct frame *frame)
{
    const struct mapped_region *region = mapping_own(session, told->region);
    uint8_t *memory;
    int r = session->bounces ? 0 : begin(session);
    if (r < 0 || !region || !region->attached) /* freed: the daemon informs the senders */
        return r;
    struct bounce *bounce = calloc(1, sizeof(*bounce));
    if (!bounce)
        return -ENOMEM;
    r = take_memory(session->bounces, told, region, frame, &memory);
    if (r == 0)
        r = compile(told, region, memory, bounce);
    if (r < 0) {
        bounce_free(bounce);
        return r;
    }
    pthread_mutex_lock(&session->bounces->mutex);
    struct bounce **bucket = &session->bounces->buckets[bounce->id % BUCKETS];
    bounce->next = *bucket;
    *bucket = bounce;
    pthread_mutex_unlock(&session->bounces->mutex);
    return 0;
}

/* On an error the session is lost: without this copy, a later notification would precede its data.
 */
void bounce_add(struct tca *session, const Tca__Bounce *told, struct frame *frame)
{
    int r = add(session, told, frame);
    if (r < 0) {
        session_lose(session, r);
        return;
    }
    struct bounces *bounces = session->bounces;
    pthread_mutex_lock(&bounces->mutex);
    bounces->newest = told->id;
    pthread_mutex_unlock(&bounces->mutex);
    ring_bell(bounces);
}

void bounce_remove(struct tca *session, uint32_t id)
{
    struct bounces *bounces = session->bounces;
    if (!bounces)
        return;
    pthread_mutex_lock(&bounces->mutex);
    struct bounce **at = find(bounces, id), *bounce = *at;
    if (bounce)
        *at = bounce->next;
    pthread_mutex_unlock(&bounces->mutex);
    if (bounce)
        bounce_free(bounce);
}

static void drop_of(struct bounces *bounces, uint64_t region)
{
    for (int i = 0; i < BUCKETS; i++) {
        for (struct bounce **at = &bounces->buckets[i], *bounce; (bounce = *at);) {
            if (bounce->region == region) {
                *at = bounce->next;
                bounce_free(bounce);
            } else {
                at = &bounce->next;
            }
        }
    }
}

static void drop_memory(struct bounce_memory **at)
{
    struct bounce_memory *memory = *at;
    *at = memory->next;
    munmap(memory->base, memory->bytes);
    free(memory);
}

void bounce_forget(struct tca *session, uint64_t region)
{
    struct bounces *bounces = session->bounces;
    struct bounce_memory **at = bounces ? find_memory(bounces, region) : NULL;
    if (!at || !*at)
        return;
    pthread_mutex_lock(&bounces->mutex);
    drop_of(bounces, region);
    pthread_mutex_unlock(&bounces->mutex);
    drop_memory(at);
    ring_bell(bounces); /* pending requests for it are skipped */
}

void bounces_clear(struct tca *session)
{
    struct bounces *bounces = session->bounces;
    if (!bounces)
        return;
    if (session->control.pid == getpid()) {
        atomic_store_explicit(&bounces->stop, true, memory_order_relaxed);
        ring_bell(bounces);
        pthread_join(bounces->thread, NULL);
        pthread_mutex_destroy(&bounces->mutex);
    }
    while (bounces->memories) {
        drop_of(bounces, bounces->memories->region);
        drop_memory(&bounces->memories);
    }
    free(bounces);
    session->bounces = NULL;
}
