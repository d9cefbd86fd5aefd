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
                                       .bytes = NOTIFY_SEGMENT_BYTES,
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
                                       .fd = fd,
                                       .next = session->mapped_segments};
    session->mapped_segments = segment;
    return 0;
}

static int map_segment(struct tca *session, struct mapped_segment *segment)
{
    void *base;
    if (segment->bytes < NOTIFY_SEGMENT_BYTES)
        return error_set(-EPROTO, "tcad sent a notification segment of %llu bytes",
                         (unsigned long long)segment->bytes);
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

int mapping_line(struct tca *session, const Tca__Mapping *mapping,
                 struct mapped_segment **ret_segment, struct notify_line **ret_line)
{
    struct mapped_segment *segment = NULL;
    int r = mapping_segment(session, mapping, &segment);
    if (r < 0)
        return r;
    if (mapping->line >= NOTIFY_LINES_MAX)
        return error_set(-EPROTO, "tcad sent line %u of the notifications of session %llu",
                         mapping->line, (unsigned long long)mapping->session);
    struct notify_line *line = notify_line_at(segment->segment, mapping->line);
    if ((r = segment_populate(line, sizeof(*line))) < 0)
        return r;
    segment->uses++;
    *ret_segment = segment;
    *ret_line = line;
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
