/* Frames of every size, with and without descriptors. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "proto/message.h"
#include "proto/tca.pb-c.h"
#include "tests/unit/proto/frames.h"

static uint8_t *pattern(size_t bytes)
{
    uint8_t *data = malloc(bytes + 1);
    for (size_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)(i * 7 + (i >> 8));
    return data;
}

FRAME_TEST(sizes_there_and_back)
{
    static const size_t sizes[] = {
        0,
        1,
        15,
        4096,
        FRAME_INLINE_MAX - 1,
        FRAME_INLINE_MAX,
        FRAME_INLINE_MAX + 1,
        1 << 20,
        FRAME_PAYLOAD_MAX,
    };
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        uint8_t *data = pattern(sizes[i]);
        struct frame *frame;
        cr_assert_eq(frame_send(ends[0], 1000 + (uint32_t)i, data, sizes[i], NULL, 0), 0);
        cr_assert_eq(frame_recv(ends[1], &frame), 0);
        cr_assert_eq(frame->header.tag, 1000 + i);
        cr_assert_eq(frame->header.length_bytes, sizes[i]);
        cr_assert_eq(frame->fd_count, 0);
        cr_assert_eq(memcmp(frame->payload, data, sizes[i]), 0, "%zu bytes", sizes[i]);
        frame = frame_free(frame);
        cr_assert_null(frame);
        free(data);
    }
}

FRAME_TEST(too_long)
{
    cr_assert_eq(frame_send(ends[0], 1, "", (size_t)FRAME_PAYLOAD_MAX + 1, NULL, 0), -EMSGSIZE);
}

static ino_t inode(int fd)
{
    struct stat st;
    cr_assert_eq(fstat(fd, &st), 0);
    return st.st_ino;
}

static void pass_fds(size_t payload_bytes, size_t count)
{
    int fds[FRAME_FDS_MAX];
    for (size_t i = 0; i < count; i++)
        fds[i] = memfd_create("test", MFD_CLOEXEC);
    uint8_t *data = pattern(payload_bytes);
    struct frame *frame;
    cr_assert_eq(frame_send(ends[0], 5, data, payload_bytes, fds, count), 0);
    cr_assert_eq(frame_recv(ends[1], &frame), 0);
    cr_assert_eq(frame->fd_count, count);
    for (size_t i = 0; i < count; i++) {
        cr_assert_neq(frame->fds[i], fds[i]);
        cr_assert_eq(inode(frame->fds[i]), inode(fds[i]), "in order");
        cr_assert(fcntl(frame->fds[i], F_GETFD) & FD_CLOEXEC);
        close(fds[i]);
    }
    cr_assert_eq(memcmp(frame->payload, data, payload_bytes), 0);
    int taken = -1;
    if (count > 1) {
        taken = frame->fds[1];
        frame->fds[1] = -1;
    }
    frame_free(frame);
    if (taken >= 0) {
        cr_assert_geq(fcntl(taken, F_GETFD), 0, "a taken descriptor stays open");
        close(taken);
    }
    free(data);
}

FRAME_TEST(descriptors)
{
    pass_fds(10, 1);
    pass_fds(10, FRAME_FDS_MAX);
    pass_fds(0, 3);
    pass_fds(FRAME_INLINE_MAX + 1, 1);
    pass_fds(FRAME_INLINE_MAX + 1, FRAME_FDS_MAX - 1);
}

FRAME_TEST(too_many_descriptors_to_send)
{
    int fds[FRAME_FDS_MAX + 1] = {0};
    uint8_t *data = pattern(FRAME_INLINE_MAX + 1);
    cr_assert_eq(frame_send(ends[0], 1, data, 1, fds, FRAME_FDS_MAX + 1), -E2BIG);
    cr_assert_eq(frame_send(ends[0], 1, data, FRAME_INLINE_MAX + 1, fds, FRAME_FDS_MAX), -E2BIG);
    free(data);
}

FRAME_TEST(a_closed_descriptor_is_not_sent)
{
    cr_assert_eq(frame_send(ends[0], 1, "x", 1, (int[]){-1}, 1), -EBADF);
    uint8_t *data = pattern(100000);
    cr_assert_eq(frame_send(ends[0], 1, data, 100000, (int[]){9999}, 1), -EBADF);
    free(data);
    struct frame *frame;
    cr_assert_eq(frame_recv(ends[1], &frame), -EAGAIN);
}

FRAME_TEST(in_order)
{
    struct frame *frame;
    for (uint32_t tag = 1; tag <= 5; tag++)
        cr_assert_eq(frame_send(ends[0], tag, &tag, sizeof(tag), NULL, 0), 0);
    for (uint32_t tag = 1; tag <= 5; tag++) {
        cr_assert_eq(frame_recv(ends[1], &frame), 0);
        cr_assert_eq(frame->header.tag, tag);
        frame_free(frame);
    }
}

FRAME_TEST(nothing_there)
{
    struct frame *frame;
    cr_assert_eq(frame_recv(ends[1], &frame), -EAGAIN);
}

FRAME_TEST(full_socket)
{
    static uint8_t data[FRAME_INLINE_MAX];
    int r, sent = 0;
    while ((r = frame_send(ends[0], 1, data, sizeof(data), (int[]){0}, 1)) == 0)
        sent++;
    cr_assert_eq(r, -EAGAIN);
    cr_assert_gt(sent, 0);
    for (; sent > 0; sent--) {
        struct frame *frame;
        cr_assert_eq(frame_recv(ends[1], &frame), 0);
        frame_free(frame);
    }
}

FRAME_TEST(end_of_connection)
{
    struct frame *frame;
    cr_assert_eq(frame_send(ends[0], 1, "last", 4, NULL, 0), 0);
    close(ends[0]);
    cr_assert_eq(frame_recv(ends[1], &frame), 0);
    frame_free(frame);
    cr_assert_eq(frame_recv(ends[1], &frame), -ECONNRESET);
    cr_assert_eq(frame_send(ends[1], 1, "x", 1, NULL, 0), -EPIPE); /* and no SIGPIPE */
    ends[0] = dup(ends[1]);
}

/* ---- messages ---- */

/* One step with so many bytes of layout, and as many of a target layout. */
struct request {
    Tca__Message message;
    Tca__PlanCommit commit;
    Tca__Chain chain, *chains[1];
    Tca__Step step, *steps[1];
    Tca__Put put;
};

static void request_init(struct request *request, uint8_t *data, size_t bytes)
{
    tca__message__init(&request->message);
    tca__plan_commit__init(&request->commit);
    tca__chain__init(&request->chain);
    tca__step__init(&request->step);
    tca__put__init(&request->put);
    request->put.source_layout = request->put.target_layout = (ProtobufCBinaryData){bytes, data};
    request->put.target_offset = 77;
    request->step.step_case = TCA__STEP__STEP_PUT;
    request->step.put = &request->put;
    request->steps[0] = &request->step;
    request->chain.steps = request->steps;
    request->chains[0] = &request->chain;
    request->chain.n_steps = request->commit.n_chains = 1;
    request->commit.chains = request->chains;
    request->message.body_case = TCA__MESSAGE__BODY_PLAN_COMMIT;
    request->message.plan_commit = &request->commit;
}

/* Sizes around each limit between methods of transfer: the packed message must arrive. */
FRAME_TEST(messages_are_packed)
{
    static const size_t sizes[] = {0,
                                   100,
                                   2000,
                                   2040,
                                   4090,
                                   4096,
                                   4097,
                                   FRAME_INLINE_MAX / 2 - 30,
                                   FRAME_INLINE_MAX / 2,
                                   100000,
                                   3 << 20};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        uint8_t *data = pattern(sizes[i]);
        struct request request;
        struct frame *frame;
        request_init(&request, data, sizes[i]);
        size_t bytes = tca__message__get_packed_size(&request.message);
        uint8_t *expected = malloc(bytes);
        tca__message__pack(&request.message, expected);
        cr_assert_eq(frame_send_message(ends[0], 8, &request.message.base, (int[]){0}, 1), 0);
        cr_assert_eq(frame_recv(ends[1], &frame), 0);
        cr_assert_eq(frame->header.tag, 8);
        cr_assert_eq(frame->header.length_bytes, bytes, "%zu", sizes[i]);
        cr_assert_eq(frame->fd_count, 1);
        cr_assert_eq(memcmp(frame->payload, expected, bytes), 0, "%zu", sizes[i]);
        frame_free(frame);
        free(expected);
        free(data);
    }
}

/* Long, although no part is. */
FRAME_TEST(messages_of_many_parts)
{
    enum { STEPS = 20000 };
    static Tca__Notify notifies[STEPS];
    static Tca__Step steps[STEPS], *list[STEPS];
    Tca__Chain chain = TCA__CHAIN__INIT, *chains[] = {&chain};
    Tca__PlanCommit commit = TCA__PLAN_COMMIT__INIT;
    struct frame *frame;
    for (uint32_t i = 0; i < STEPS; i++) {
        tca__notify__init(&notifies[i]);
        notifies[i].rank = i;
        tca__step__init(&steps[i]);
        steps[i].step_case = TCA__STEP__STEP_NOTIFY;
        steps[i].notify = &notifies[i];
        list[i] = &steps[i];
    }
    chain.steps = list;
    chain.n_steps = STEPS;
    commit.chains = chains;
    commit.n_chains = 1;
    const Tca__Message message = MESSAGE_OF(PLAN_COMMIT, plan_commit, &commit);
    const size_t bytes = tca__message__get_packed_size(&message);
    cr_assert_gt(bytes, FRAME_INLINE_MAX);
    cr_assert_eq(frame_send_message(ends[0], 8, &message.base, NULL, 0), 0);
    cr_assert_eq(frame_recv(ends[1], &frame), 0);
    cr_assert_eq(frame->header.length_bytes, bytes);
    Tca__Message *read = tca__message__unpack(NULL, bytes, frame->payload);
    cr_assert_not_null(read);
    cr_assert_eq(read->plan_commit->chains[0]->n_steps, STEPS);
    cr_assert_eq(read->plan_commit->chains[0]->steps[STEPS - 1]->notify->rank, STEPS - 1);
    tca__message__free_unpacked(read, NULL);
    frame_free(frame);
}

FRAME_TEST(messages_that_cannot_go)
{
    uint8_t *data = pattern(FRAME_PAYLOAD_MAX / 2);
    struct request request;
    struct frame *frame;
    request_init(&request, data, FRAME_PAYLOAD_MAX / 2);
    cr_assert_eq(frame_send_message(ends[0], 8, &request.message.base, NULL, 0), -EMSGSIZE);
    request_init(&request, data, FRAME_INLINE_MAX);
    int fds[FRAME_FDS_MAX] = {0};
    cr_assert_eq(frame_send_message(ends[0], 8, &request.message.base, fds, FRAME_FDS_MAX), -E2BIG);
    cr_assert_eq(frame_send_message(ends[0], 8, &request.message.base, (int[]){9999}, 1), -EBADF);
    cr_assert_eq(frame_recv(ends[1], &frame), -EAGAIN);
    free(data);
}
