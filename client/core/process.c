#include "client/core/process.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/core/clock.h"
#include "client/core/error.h"
#include "client/core/segment.h"
#include "client/core/session.h"
#include "drivers/shm/share.h"

static struct process *look_up(const struct tca *session, uint64_t id)
{
    struct process *process = session->processes;
    while (process && process->session != id)
        process = process->next;
    return process;
}

int process_find(struct tca *session, uint64_t id, struct process **ret_process)
{
    struct process *process = look_up(session, id);
    if (!process) {
        uint8_t address[ADDRESS_MAX_BYTES], offer[OFFER_MAX_BYTES];
        size_t offer_bytes;
        process = calloc(1, sizeof(*process));
        if (!process)
            return error_static(-ENOMEM, "out of memory");
        process->session = id;
        process->lane_fd = -1;
        int r = session->shm->ops->address(session->shm, address);
        if (r >= 0)
            r = session->shm->ops->peer_connect(session->shm, address, (size_t)r, &process->peer,
                                                offer, &offer_bytes);
        if (r < 0) {
            free(process);
            return error_set(r, "cannot use the shm driver: %s", tca_strerror(r));
        }
        if (id == session->id)
            shm_peer_self(process->peer);
        process->next = session->processes;
        session->processes = process;
    }
    *ret_process = process;
    return 0;
}

int process_adopt_lane(struct tca *session, uint64_t id, int *fd)
{
    struct process *process;
    int r = process_find(session, id, &process);
    if (r < 0 || process->has_lane || process->lane_fd >= 0)
        return r;
    process->lane_fd = *fd;
    *fd = -1;
    return 0;
}

int process_map_lane(struct process *process, struct notify_segment *segment)
{
    void *base;
    if (process->has_lane)
        return 0;
    if (process->lane_fd < 0)
        return error_set(-EPROTO, "tcad named a lane to session %llu, which it never sent",
                         (unsigned long long)process->session);
    int r = segment_map(process->lane_fd, 0, sizeof(struct lane_segment), "a lane", &base);
    if (r == 0 && (r = segment_populate(base, sizeof(struct lane_segment))) < 0)
        munmap(base, sizeof(struct lane_segment));
    if (r < 0)
        return r;
    close(process->lane_fd);
    process->lane_fd = -1;
    lane_init(&process->lane, base, LANE_SENDER);
    process->lane.receiver = segment;
    process->has_lane = true;
    shm_peer_lane(process->peer, &process->lane);
    return 0;
}

struct process *process_gone(struct tca *session, uint64_t id, int error)
{
    struct process *process = look_up(session, id);
    if (!process)
        return NULL;
    process->gone = true;
    session->shm->ops->peer_fail(session->shm, process->peer, error);
    return process;
}

static void process_free(struct tca *session, struct process *process)
{
    session->shm->ops->peer_disconnect(session->shm, process->peer);
    if (process->has_lane) {
        munmap(process->lane.segment, sizeof(struct lane_segment));
        lane_deinit(&process->lane);
    }
    if (process->lane_fd >= 0)
        close(process->lane_fd);
    free(process);
}

bool process_drop(struct tca *session, struct process *process)
{
    struct process **link = &session->processes;
    if (!process->gone || process->uses > 0)
        return false;
    while (*link != process)
        link = &(*link)->next;
    *link = process->next;
    process_free(session, process);
    return true;
}

void process_drain_all(struct tca *session, uint64_t end_ns)
{
    for (struct process *process = session->processes; process; process = process->next)
        while (!shm_peer_copied(process->peer) && clock_left(end_ns) > 0)
            sched_yield();
}

void process_clear(struct tca *session)
{
    while (session->processes) {
        struct process *process = session->processes;
        session->processes = process->next;
        process_free(session, process);
    }
}
