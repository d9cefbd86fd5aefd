#include "tests/unit/client/fake.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/frame.h"
#include "proto/handle.h"
#include "proto/message.h"
#include "proto/notify.h"
#include "proto/status.h"

enum { SESSION = 7, REGION = 3, FAKE_SLOTS = 64, TABLE_BITS = 8 };

static void must(bool fine)
{
    if (!fine)
        abort();
}

static int memory(size_t bytes, bool sealed, void **ret_base)
{
    int fd = memfd_create("fake", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    must(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
    if (sealed)
        must(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
    if (ret_base)
        *ret_base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return fd;
}

/* Each slot of rank 0 has the line of that number. */
static void show_line(struct notify_segment *notify, uint32_t slot)
{
    const uint64_t key = notify_key(0, slot);
    struct notify_place *table = notify_table(notify, TABLE_BITS);
    uint32_t at = (uint32_t)notify_hash(key) & ((1 << TABLE_BITS) - 1);
    while (table[at].line != 0)
        at = (at + 1) & ((1 << TABLE_BITS) - 1);
    table[at].key = key;
    table[at].line = slot + 1;
    notify_line_at(notify, slot)->key = key;
}

static void make_segments(struct fake *fake)
{
    void *segment, *notify;
    fake->segment_bytes = fake->lie == FAKE_SHORT_SEGMENT ? 4096 : sizeof(struct session_segment);
    fake->segment_fd = memory(fake->segment_bytes, true, &segment);
    fake->segment = segment;
    fake->segment->magic = SEGMENT_MAGIC;
    fake->segment->version = PROTO_VERSION + (fake->lie == FAKE_SEGMENT_VERSION);
    fake->notify_fd = memory(NOTIFY_SEGMENT_BYTES, fake->lie != FAKE_UNSEALED_SEGMENT, &notify);
    fake->notify = notify;
    for (uint32_t slot = 0; slot < FAKE_SLOTS; slot++)
        show_line(fake->notify, slot);
    fake->notify->table_bits = TABLE_BITS;
    fake->notify->line_count = FAKE_SLOTS;
    fake->engine_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

static void send_message(struct fake *fake, uint32_t tag, const Tca__Message *message,
                         const int *fds, size_t fd_count)
{
    uint8_t bytes[65536];
    must(tca__message__get_packed_size(message) <= sizeof(bytes));
    size_t length = tca__message__pack(message, bytes);
    if (fake->lie == FAKE_GARBAGE)
        memset(bytes, 0xff, length);
    frame_send(fake->fd, tag, bytes, length, fds, fd_count);
}

static void send_done(struct fake *fake, uint32_t tag)
{
    Tca__Done done = TCA__DONE__INIT;
    const Tca__Message message = MESSAGE_OF(DONE, done, &done);
    send_message(fake, tag, &message, NULL, 0);
}

static void welcome(struct fake *fake, uint32_t tag)
{
    if (fake->lie == FAKE_FRAME_VERSION) {
        struct frame_header header;
        frame_header_fill(&header, tag, 0);
        header.version++;
        send(fake->fd, &header, sizeof(header), MSG_NOSIGNAL);
        return;
    }
    make_segments(fake);
    Tca__Welcome welcome =
        BODY_OF(welcome, .version = PROTO_VERSION + (fake->lie == FAKE_VERSION), .node = 1,
                .node_name = (char *)"fake", .session = SESSION,
                .session_segment_bytes = sizeof(struct session_segment),
                .notify_segment_bytes = NOTIFY_SEGMENT_BYTES, .daemon_version = (char *)"9.9.9");
    Tca__Rail rails[] = {TCA__RAIL__INIT, TCA__RAIL__INIT}, *rail_list[] = {rails, rails + 1};
    rails[FAKE_SHM - 1].name = rails[FAKE_SHM - 1].driver = (char *)"shm";
    rails[FAKE_OFI - 1].name = (char *)"ofi:tcp:lo";
    rails[FAKE_OFI - 1].driver = (char *)"ofi";
    if (fake->lie == FAKE_LONG_RAIL)
        rails[0].name = (char *)"shm:a_name_that_has_32_bytes_or_more";
    welcome.n_rails = 2;
    welcome.rails = rail_list;
    const Tca__Message message = MESSAGE_OF(WELCOME, welcome, &welcome);
    send_message(fake, tag, &message, (int[]){fake->segment_fd, fake->notify_fd, fake->engine_fd},
                 fake->lie == FAKE_NO_DESCRIPTORS ? 0 : 3);
}

static void region_granted(struct fake *fake, uint32_t tag, const Tca__RegionAlloc *alloc)
{
    uint8_t bytes[HANDLE_BYTES];
    fake->region_bytes = (alloc->bytes + 4095) / 4096 * 4096;
    if (fake->region_fd >= 0)
        close(fake->region_fd);
    fake->region_fd =
        memory(fake->lie == FAKE_SHORT_REGION ? 4096 : fake->region_bytes, true, NULL);
    handle_encode(&(struct handle){.node = 1, .region = REGION, .length_bytes = fake->region_bytes},
                  bytes);
    bytes[20] ^= fake->lie == FAKE_BAD_HANDLE;
    Tca__RegionGranted granted =
        BODY_OF(region_granted, .region = REGION, .address = fake->region_address,
                .bytes = fake->region_bytes, .handle = (ProtobufCBinaryData){sizeof(bytes), bytes});
    const Tca__Message message = MESSAGE_OF(REGION_GRANTED, region_granted, &granted);
    send_message(fake, tag, &message, &fake->region_fd, 1);
}

/* For a chain of puts that are each followed by a notify: one place for each pair. */
static void map(struct fake *fake, const Tca__Put *put, const Tca__Step *notify,
                Tca__Mapping *mapping)
{
    struct handle handle;
    tca__mapping__init(mapping);
    mapping->session = SESSION;
    mapping->segment_bytes = NOTIFY_SEGMENT_BYTES;
    if (put) {
        must(handle_decode(put->handle.data, &handle) == 0);
        mapping->region = REGION;
        mapping->region_address = fake->region_address;
        mapping->region_bytes = fake->region_bytes;
        mapping->offset = handle.offset_bytes + put->target_offset;
    }
    if (notify && notify->step_case == TCA__STEP__STEP_NOTIFY)
        mapping->line = notify->notify->slot;
    switch (fake->lie) {
    case FAKE_DESCRIPTOR_INDEX:
        mapping->region = 99;
        mapping->region_fd = 5;
        break;
    case FAKE_UNKNOWN_REGION:
        mapping->region = 99;
        break;
    case FAKE_OFFSET:
        mapping->offset = fake->region_bytes - 1;
        break;
    case FAKE_ORDERED:
        mapping->owner = 1000 + mapping->offset;
        mapping->waits = mapping->landed = true;
        break;
    case FAKE_NOTIFY_BYTES:
        mapping->session = 99;
        mapping->session_fd = 1;
        mapping->segment_bytes -= 4096;
        break;
    case FAKE_LINE:
        mapping->line = NOTIFY_LINES_MAX;
        break;
    default:
        break;
    }
}

static uint32_t seat_of(const struct fake *fake, size_t chain)
{
    switch (fake->lie) {
    case FAKE_SEAT:
        return 17;
    case FAKE_DAEMON_SEAT:
        return SEAT_DAEMON;
    case FAKE_MIXED_SEATS:
        return chain % 2 ? SEAT_DAEMON : SEAT_CLIENT;
    default:
        return SEAT_CLIENT;
    }
}

static void commit(struct fake *fake, uint32_t tag, const Tca__PlanCommit *commit)
{
    static unsigned plans; /* numbers are not reused here */
    fake->commit_timeout_ns = commit->timeout_ns;
    enum { STEPS = 1024 };
    static Tca__Mapping mappings[PLAN_CHAINS_MAX][STEPS], *lists[PLAN_CHAINS_MAX][STEPS];
    Tca__ChainCommitted chains[PLAN_CHAINS_MAX], *chain_list[PLAN_CHAINS_MAX];

    for (size_t i = 0; i < commit->n_chains; i++) {
        const Tca__Chain *chain = commit->chains[i];
        tca__chain_committed__init(&chains[i]);
        chain_list[i] = &chains[i];
        chains[i].rail = fake->lie == FAKE_UNKNOWN_RAIL ? FAKE_OFI + 1 : FAKE_SHM;
        chains[i].seat = seat_of(fake, i);
        chains[i].mappings = lists[i];
        must(chain->n_steps <= STEPS);
        for (size_t j = 0; chains[i].seat == SEAT_CLIENT && j < chain->n_steps; j++) {
            const Tca__Step *step = chain->steps[j];
            const Tca__Put *put = step->step_case == TCA__STEP__STEP_PUT ? step->put : NULL;
            if (step->step_case == TCA__STEP__STEP_WAIT)
                continue;
            lists[i][chains[i].n_mappings] = &mappings[i][j];
            const Tca__Step *notify = !put                     ? step
                                      : j + 1 < chain->n_steps ? chain->steps[j + 1]
                                                               : NULL;
            map(fake, put, notify, lists[i][chains[i].n_mappings++]);
            if (put && j + 1 < chain->n_steps &&
                chain->steps[j + 1]->step_case == TCA__STEP__STEP_NOTIFY)
                j++;
        }
    }
    if (fake->lie == FAKE_FEW_MAPPINGS)
        chains[0].n_mappings--;
    Tca__PlanCommitted committed = BODY_OF(
        plan_committed, .plan = fake->lie == FAKE_PLAN_NUMBER ? PLANS_PER_SESSION_MAX : plans++,
        .n_chains = commit->n_chains - (fake->lie == FAKE_CHAIN_COUNT), .chains = chain_list);
    const Tca__Message message = MESSAGE_OF(PLAN_COMMITTED, plan_committed, &committed);
    send_message(fake, tag, &message, &fake->notify_fd, fake->lie == FAKE_NOTIFY_BYTES);
}

/* Two pages, whichever region the handle names. */
static void reach(struct fake *fake, uint32_t tag, const Tca__RegionReach *reach)
{
    enum { BYTES = 8192 };
    struct handle handle;
    must(reach->handle.len == HANDLE_BYTES && handle_decode(reach->handle.data, &handle) == 0);
    int fd = memory(fake->lie == FAKE_REACH_FILE ? BYTES / 2 : BYTES, true, NULL);
    Tca__Mapping mapping =
        BODY_OF(mapping, .region = handle.region, .region_address = 0x510000000000,
                .region_bytes = fake->lie == FAKE_REACH_SHORT ? BYTES / 2 : BYTES,
                .region_fd = fake->lie == FAKE_REACH_DESCRIPTOR ? 2 : 1,
                .region_offset = fake->lie == FAKE_REACH_BEYOND ? 1 << 20 : 0);
    const Tca__Message message = MESSAGE_OF(REGION_REACHED, region_reached, &mapping);
    send_message(fake, tag, &message, &fd, 1);
    close(fd);
}

static void answer(struct fake *fake, uint32_t tag, const Tca__Message *question)
{
    switch (question->body_case) {
    case TCA__MESSAGE__BODY_HELLO:
        welcome(fake, tag);
        break;
    case TCA__MESSAGE__BODY_REGION_ALLOC:
        if (fake->lie == FAKE_WRONG_ANSWER)
            send_done(fake, tag);
        else
            region_granted(fake, tag, question->region_alloc);
        break;
    case TCA__MESSAGE__BODY_REGION_REACH:
        reach(fake, tag, question->region_reach);
        break;
    case TCA__MESSAGE__BODY_PLAN_COMMIT:
        if (fake->lie == FAKE_HANG_UP)
            shutdown(fake->fd, SHUT_RDWR);
        while (fake->lie == FAKE_LATE_COMMIT && !fake->go)
            usleep(1000);
        if (fake->lie != FAKE_SILENT_COMMIT && fake->lie != FAKE_HANG_UP)
            commit(fake, tag, question->plan_commit);
        break;
    case TCA__MESSAGE__BODY_PLAN_RELEASE:
    case TCA__MESSAGE__BODY_REGION_FREE:
        atomic_fetch_add(&fake->released, 1);
        send_done(fake, tag);
        break;
    case TCA__MESSAGE__BODY_SESSION_CLOSE:
        send_done(fake, tag);
        break;
    default:
        abort();
    }
}

static void *serve(void *context)
{
    struct fake *fake = context;
    struct frame *frame;
    fake->fd = accept4(fake->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    while (fake->fd >= 0 && frame_recv(fake->fd, &frame) == 0) {
        Tca__Message *question =
            tca__message__unpack(NULL, frame->header.length_bytes, frame->payload);
        must(question != NULL);
        answer(fake, frame->header.tag, question);
        tca__message__free_unpacked(question, NULL);
        frame_free(frame);
    }
    return NULL;
}

void fake_start(struct fake *fake, enum fake_lie lie)
{
    static uint64_t started; /* each has memory at other addresses */
    *fake = (struct fake){.address = {.sun_family = AF_UNIX},
                          .region_address = 0x500000000000 + (started++ << 32),
                          .lie = lie,
                          .region_fd = -1,
                          .segment_fd = -1,
                          .notify_fd = -1,
                          .engine_fd = -1};
    snprintf(fake->address.sun_path, sizeof(fake->address.sun_path), "/tmp/tca-fake-%d",
             (int)getpid());
    unlink(fake->address.sun_path);
    fake->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    must(bind(fake->listen_fd, (struct sockaddr *)&fake->address, sizeof(fake->address)) == 0 &&
         listen(fake->listen_fd, 1) == 0);
    must(pthread_create(&fake->thread, NULL, serve, fake) == 0);
}

void fake_stop(struct fake *fake)
{
    fake->go = true;
    shutdown(fake->listen_fd, SHUT_RDWR); /* if nobody ever came */
    pthread_join(fake->thread, NULL);
    const int fds[] = {fake->listen_fd, fake->fd,        fake->segment_fd,
                       fake->notify_fd, fake->engine_fd, fake->region_fd};
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    if (fake->notify)
        munmap(fake->notify, NOTIFY_SEGMENT_BYTES);
    if (fake->segment)
        munmap(fake->segment, fake->segment_bytes);
    unlink(fake->address.sun_path);
}

void fake_event(struct fake *fake, int kind, uint64_t object, int error)
{
    Tca__Event event = TCA__EVENT__INIT;
    event.kind = (Tca__Event__Kind)kind;
    event.plan = (uint32_t)object;
    event.ranks = &event.plan;
    event.n_ranks = kind == TCA__EVENT__KIND__RANKS_GONE;
    event.regions = &object;
    event.n_regions = kind == TCA__EVENT__KIND__REGION_GONE;
    event.status = status_to_wire(error);
    const Tca__Message message = MESSAGE_OF(EVENT, event, &event);
    send_message(fake, 0, &message, NULL, 0);
    atomic_fetch_add(&fake->segment->events, 1);
}

void fake_share(struct fake *fake, const Tca__Share *share, const int *fds, size_t fd_count)
{
    Tca__Event event = TCA__EVENT__INIT;
    event.kind = TCA__EVENT__KIND__SHARE;
    event.share = (Tca__Share *)share;
    const Tca__Message message = MESSAGE_OF(EVENT, event, &event);
    send_message(fake, 0, &message, fds, fd_count);
    atomic_fetch_add(&fake->segment->events, 1);
}

void fake_withdraw(struct fake *fake, uint32_t target)
{
    Tca__Event event = TCA__EVENT__INIT;
    event.kind = TCA__EVENT__KIND__WITHDRAWN;
    event.ids = &target;
    event.n_ids = 1;
    const Tca__Message message = MESSAGE_OF(EVENT, event, &event);
    send_message(fake, 0, &message, NULL, 0);
    atomic_fetch_add(&fake->segment->events, 1);
}
