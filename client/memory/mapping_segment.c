/* The notification segments of other sessions. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/core/error.h"
#include "client/core/segment.h"
#include "client/core/session.h"
#include "client/memory/mapping_internal.h"

static struct mapped_segment *find_segment(struct tca *session, uint64_t id)
{
    struct mapped_segment *segment = session->mapped_segments;
    while (segment && segment->session != id)
        segment = segment->next;
    return segment;
}

int mapping_insert_own_segment(struct tca *session)
{
    struct mapped_segment *segment = calloc(1, sizeof(*segment));
    if (!segment)
        return error_static(-ENOMEM, "out of memory");
    *segment = (struct mapped_segment){.session = session->id,
                                       .bytes = session->notify_bytes,
                                       .sources = session->sources,
                                       .fd = -1,
                                       .own = true,
                                       .segment = session->notify,
                                       .next = session->mapped_segments};
    session->mapped_segments = segment;
    return 0;
}

int mapping_adopt_segment(struct tca *session, const Tca__Mapping *mapping, struct frame *frame)
{
    if (find_segment(session, mapping->session))
        return 0;
    struct mapped_segment *segment = calloc(1, sizeof(*segment));
    if (!segment)
        return error_static(-ENOMEM, "out of memory");
    int fd = mapping_take_fd(frame, mapping->session_fd);
    if (fd < 0) {
        free(segment);
        return fd;
    }
    *segment = (struct mapped_segment){.session = mapping->session,
                                       .bytes = mapping->segment_bytes,
                                       .sources = mapping->session_sources,
                                       .fd = fd,
                                       .next = session->mapped_segments};
    session->mapped_segments = segment;
    return 0;
}

static int map_segment(struct tca *session, struct mapped_segment *segment)
{
    void *base;
    if (segment->sources == 0 || segment->sources > GROUP_SIZE_MAX ||
        segment->bytes < notify_segment_bytes(segment->sources))
        return error_set(-EPROTO, "tcad sent a notification segment of %llu bytes for %u ranks",
                         (unsigned long long)segment->bytes, segment->sources);
    int r = segment_map(segment->fd, 0, segment->bytes, "a peer's notification segment", &base);
    if (r < 0)
        return r;
    segment->segment = base;
    close(segment->fd);
    segment->fd = -1;
    return 0;
}

int mapping_segment(struct tca *session, const Tca__Mapping *mapping,
                    struct mapped_segment **ret_segment)
{
    struct mapped_segment *segment = find_segment(session, mapping->session);
    if (mapping->session == 0)
        return error_static(
            -EOWNERDEAD,
            "the process that would be notified has ended, or its tcad has been restarted");
    if (!segment)
        return error_set(-EPROTO, "tcad refers to session %llu without having sent it",
                         (unsigned long long)mapping->session);
    int r = segment->segment ? 0 : map_segment(session, segment);
    if (r == 0)
        *ret_segment = segment;
    return r;
}

int mapping_counter(struct tca *session, const Tca__Mapping *mapping, uint32_t slot,
                    struct mapped_segment **ret_segment, struct notify_counter **ret_counter)
{
    struct mapped_segment *segment = NULL;
    uint32_t rank = session->identity.rank;
    int r = mapping_segment(session, mapping, &segment);
    if (r < 0)
        return r;
    if (rank >= segment->sources)
        return error_set(-EPROTO, "session %llu has counters for %u ranks, not for rank %u",
                         (unsigned long long)mapping->session, segment->sources, rank);
    struct notify_counter *counter = &segment->counters[slot];
    if (!counter->line) {
        struct notify_line *line = notify_line_of(segment->segment, rank, slot);
        if ((r = segment_populate(line, sizeof(*line))) < 0)
            return r;
        counter->segment = segment->segment;
        counter->value = atomic_load_explicit(&line->direct, memory_order_relaxed);
        counter->line = line;
    }
    segment->uses++;
    *ret_segment = segment;
    *ret_counter = counter;
    return 0;
}

/* ---- the end ---- */

static void unmap_segment(struct mapped_segment *segment)
{
    if (segment->segment && !segment->own)
        munmap(segment->segment, segment->bytes);
    if (segment->fd >= 0)
        close(segment->fd);
    free(segment);
}

static void drop_if_unneeded(struct tca *session, struct mapped_segment *segment)
{
    struct mapped_segment **link = &session->mapped_segments;
    if (!segment->gone || segment->uses > 0 || segment->own)
        return;
    while (*link != segment)
        link = &(*link)->next;
    *link = segment->next;
    unmap_segment(segment);
}

void mapping_segment_unuse(struct tca *session, struct mapped_segment *segment)
{
    segment->uses--;
    drop_if_unneeded(session, segment);
}

void mapping_session_gone(struct tca *session, uint64_t id)
{
    struct mapped_segment *segment = find_segment(session, id);
    if (!segment)
        return;
    segment->gone = true;
    drop_if_unneeded(session, segment);
}

void mapping_clear_segments(struct tca *session)
{
    while (session->mapped_segments) {
        struct mapped_segment *segment = session->mapped_segments;
        session->mapped_segments = segment->next;
        unmap_segment(segment);
    }
}
