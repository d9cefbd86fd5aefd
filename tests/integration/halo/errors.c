/*
 * halo-errors: what tca_halo_new() and the calls after it reject, at both ranks of a group of two.
 * Ends with 0, or prints what was wrong.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "client/halo/halo.h"
#include "client/include/tca-halo.h"
#include "tests/integration/expect.h"

enum { EXCHANGES = 64, ROWS = 6, COLUMNS = 5 };

static struct tca *session;
static double *memory[2];

static struct tca_halo_array array(void)
{
    return (struct tca_halo_array){.memory = {memory[0]},
                                   .element_bytes = sizeof(double),
                                   .extents = {ROWS, COLUMNS},
                                   .low = {1, 1},
                                   .high = {1, 1}};
}

static struct tca_halo_args args_of(const struct tca_halo_array *arrays, uint32_t count)
{
    return (struct tca_halo_args){
        .dimensions = 2, .grid = {2, 1}, .arrays = arrays, .array_count = count};
}

static void rejected(const struct tca_halo_args *args, int error, const char *text)
{
    struct tca_halo *halo = NULL;

    expect(tca_halo_new(session, args, &halo), error, text, text);
    if (halo) {
        printf("rank %u: %s: an exchange in spite of the error\n", rank, text);
        wrong = 1;
    }
}

/* An error of one rank is one of both. */
static void by_one_rank(void)
{
    struct tca_halo_array one = array();
    struct tca_halo_args args = args_of(&one, 1);

    if (rank == 1)
        one.element_bytes = 0;
    rejected(&args, -EINVAL,
             rank == 1 ? "array 0: element_bytes is 0" : "rank 1: array 0: element_bytes is 0");
    one = array();
    if (rank == 0)
        one.memory[0] = &wrong;
    rejected(&args, -EINVAL, rank == 0 ? "array 0: " : "rank 0: array 0: ");
    one = array();
    if (rank == 1)
        args.array_count = 0;
    rejected(&args, -EINVAL, rank == 1 ? "of 0 arrays" : "rank 1: a halo exchange of 0 arrays");
    args = args_of(&one, 1);
    if (rank == 0)
        args.dimensions = 8;
    rejected(&args, -EINVAL,
             rank == 0 ? "of 8 dimensions" : "rank 0: a halo exchange of 8 dimensions");
    args = args_of(&one, 1);
    args.plan.channel = rank == 1 ? 7 : 0;
    rejected(&args, -EINVAL, rank == 1 ? "channel 7" : "rank 1: channel 7");
}

/* The other rank's text has no end, and would move the cursor. */
static void by_a_liar(void)
{
    struct tca_halo_array one = array();
    struct tca_halo_args args = args_of(&one, 1);
    struct halo_head lie = {.head = {.error = -EIO}}, heads[2];
    char text[AGREE_TEXT_BYTES], texts[2][AGREE_TEXT_BYTES];

    if (rank == 1) {
        memset(text, '\033', sizeof(text));
        expect(tca_allgather(session, &lie, sizeof(lie), heads, TCA_DEFAULT), 0, NULL, "a lie");
        expect(tca_allgather(session, text, sizeof(text), texts, TCA_DEFAULT), 0, NULL, "its text");
        return;
    }
    rejected(&args, -EIO, "halo exchange: rank 1: ????");
    const char *shown = strchr(tca_error_text(), '?');
    size_t bytes = shown ? strspn(shown, "?") : 0;
    expect(bytes == AGREE_TEXT_BYTES - 1 && !shown[bytes], 1, NULL, "the length of the text");
}

static void by_both(void)
{
    struct tca_halo_array two[2] = {array(), array()};
    struct tca_halo_args args = args_of(two, 2);

    args.grid[0] = 3;
    rejected(&args, -EINVAL, "3 processes, the group 2");
    args = args_of(two, 2);
    args.diagonals = 3;
    rejected(&args, -EINVAL, "diagonals 3");
    args = args_of(two, 2);
    two[1].memory[1] = memory[1];
    rejected(&args, -EINVAL, "array 1 has 2 buffers");
    two[1] = array();
    two[1].high[0] = ROWS + 1;
    rejected(&args, -EINVAL, "array 1, dimension 0: the high halo of rank 0 is 7 wide");
    two[1] = array();
    two[1].low[1] = UINT64_MAX / 64;
    rejected(&args, -EINVAL, "more than 2^64 bytes");
}

static void by_disagreement(void)
{
    struct tca_halo_array one = array();
    struct tca_halo_args args = args_of(&one, 1);

    args.grid[0] = rank == 0 ? 2 : 1;
    args.grid[1] = rank == 0 ? 1 : 2;
    rejected(&args, -EPROTO, "the ranks 0 and 1 disagree");
    args = args_of(&one, 1);
    one.memory[1] = rank == 1 ? memory[1] : NULL;
    rejected(&args, -EPROTO, "of rank 0 have 1 buffers each, those of rank 1 have 2");
    one = array();
    one.element_bytes = rank == 0 ? 8 : 4;
    rejected(&args, -EPROTO, "elements of 8 bytes at rank 0, of 4 bytes at rank 1");
    one = array();
    one.extents[1] = rank == 0 ? COLUMNS : COLUMNS - 1;
    rejected(&args, -EINVAL, "extent 4");
}

static void exchange(struct tca_halo *halo)
{
    struct tca_receipt receipt;

    expect(tca_halo_start(halo), 0, NULL, "start");
    expect(tca_halo_start(halo), -EBUSY, "still running", "a second start");
    expect(tca_halo_wait_face(halo, 0, -3), -EINVAL, NULL, "an invalid time-out");
    expect(tca_halo_wait_face(halo, 0, TCA_DEFAULT), 0, NULL, "wait for the face");
    expect(tca_halo_wait(halo, TCA_DEFAULT), 0, NULL, "wait");
    expect(tca_halo_test(halo), 1, NULL, "test");
    expect(tca_halo_receipt(halo, 0, &receipt), 0, NULL, "receipt");
    if (receipt.bytes != COLUMNS * sizeof(double)) {
        printf("rank %u: a face of %lu bytes\n", rank, receipt.bytes);
        wrong = 1;
    }
}

/* Many at once; and again, after they were freed. */
static void many(void)
{
    struct tca_halo *halos[EXCHANGES];
    struct tca_halo_array one = array();
    struct tca_halo_args args = args_of(&one, 1);

    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < EXCHANGES; i++)
            expect(tca_halo_new(session, &args, &halos[i]), 0, NULL, "one of many exchanges");
        for (int i = 0; i < EXCHANGES; i++) {
            exchange(halos[i]);
            tca_halo_free(halos[i]);
        }
    }
}

static void faces(void)
{
    struct tca_halo_array one = array();
    struct tca_halo_args args = args_of(&one, 1);
    struct tca_halo *halo = NULL;
    struct tca_halo_face face;

    args.diagonals = 2;
    check(tca_halo_new(session, &args, &halo), "an exchange");
    expect((int)tca_halo_faces(halo), 1, NULL, "faces");
    expect(tca_halo_face(halo, 0, &face), 0, NULL, "a face");
    if (face.rank != 1 - rank || face.direction[0] != (rank == 0 ? 1 : -1) ||
        face.direction[1] != 0 || face.kind != TCA_HALO_BLOCK ||
        face.sent_bytes != COLUMNS * sizeof(double) || face.received_bytes != face.sent_bytes) {
        printf("rank %u: a face to rank %u, %d %d, %s, %lu bytes\n", rank, face.rank,
               face.direction[0], face.direction[1], tca_halo_kind_name(face.kind),
               face.sent_bytes);
        wrong = 1;
    }
    expect(tca_halo_face(halo, 1, &face), -EINVAL, "face 1", "a face that does not exist");
    expect(tca_halo_wait_face(halo, 1, 0), -EINVAL, "face 1", "waiting for it");
    expect(tca_halo_test(halo), 1, NULL, "a test before the first start");
    tca_halo_free(halo);
}

/* All over the numbers that programs have. */
static uint32_t slot_of(uint32_t number)
{
    return number % 2 ? INT32_MAX - number : number << number / 4;
}

/* The slots of the program are its own, also while exchanges run. */
static void slots(void)
{
    enum { SLOTS = 64 };
    struct tca_halo_array one = array();
    struct tca_halo_args args = args_of(&one, 1);
    struct tca_halo *halo = NULL;
    struct tca_plan *plan = NULL;

    check(tca_plan_new(session, NULL, &plan), "plan");
    for (uint32_t i = 0; i < SLOTS; i++)
        expect(tca_plan_notify(plan, 1 - rank, slot_of(i)), 0, NULL, "notify");
    expect(tca_plan_commit(plan, TCA_DEFAULT), 0, NULL, "commit");
    expect(tca_start(plan), 0, NULL, "start");
    expect(tca_wait(plan, TCA_DEFAULT), 0, NULL, "wait");
    check(tca_halo_new(session, &args, &halo), "an exchange");
    exchange(halo);
    for (uint32_t i = 0; i < SLOTS; i++)
        expect(tca_notified_wait(session, 1 - rank, slot_of(i), TCA_DEFAULT), 0, NULL, "taking it");
    expect((int)tca_notified_count(session, 1 - rank, slot_of(0)), 0, NULL, "all are taken");
    expect(tca_notified(session, 1 - rank, SLOTS), 0, NULL, "a slot that nobody uses");
    tca_halo_free(halo);
    tca_plan_free(plan);
}

/* Rank 0 starts and waits in vain before rank 1 starts. */
static void late(void)
{
    const int64_t moment_ns = 1000 * 1000;
    struct tca_halo_array one = array();
    struct tca_halo_args args = args_of(&one, 1);
    struct tca_halo *halo = NULL;

    check(tca_halo_new(session, &args, &halo), "an exchange");
    if (rank == 0) {
        expect(tca_halo_start(halo), 0, NULL, "start");
        expect(tca_halo_test(halo), 0, NULL, "test in vain");
        expect(tca_halo_wait(halo, moment_ns), -ETIMEDOUT, "rank 1 has not sent within",
               "wait in vain");
        expect(tca_halo_wait(halo, 0), -ETIMEDOUT, "rank 1 has not sent", "look in vain");
        expect(tca_halo_wait_face(halo, 0, moment_ns), -ETIMEDOUT, "rank 1 has not sent within",
               "face in vain");
        expect(tca_halo_start(halo), -EBUSY, "still running", "a start too many");
    }
    expect(tca_barrier(session, TCA_DEFAULT), 0, NULL, "barrier");
    if (rank == 1)
        expect(tca_halo_start(halo), 0, NULL, "start");
    expect(tca_halo_wait_face(halo, 0, TCA_DEFAULT), 0, NULL, "a face");
    expect(tca_halo_wait(halo, TCA_FOREVER), 0, NULL, "wait");
    expect(tca_halo_wait(halo, 0), 0, NULL, "another wait");
    tca_halo_free(halo);
}

/* Rank 1 has no rows: first nothing at all, then a halo of one row. */
static void empty(void)
{
    for (uint64_t width = 0; width < 2; width++) {
        struct tca_halo_array one = array();
        struct tca_halo_args args = args_of(&one, 1);
        struct tca_halo *halo = NULL;

        one.memory[1] = memory[1];
        one.low[0] = one.high[0] = 0;
        if (rank == 1) {
            one.extents[0] = 0;
            one.low[0] = width;
        }
        if (rank == 1 && width == 0)
            one.memory[0] = one.memory[1] = NULL;
        for (uint64_t i = 0; i < (ROWS + 2) * (COLUMNS + 2); i++)
            memory[0][i] = rank == 0 ? (double)i : -1;
        args.diagonals = 2;
        check(tca_halo_new(session, &args, &halo), "an exchange with an empty rank");
        for (int step = 0; step < 3; step++) {
            expect(tca_halo_start(halo), 0, NULL, "start");
            expect(tca_halo_wait_face(halo, 0, TCA_DEFAULT), 0, NULL, "wait for its face");
            expect(tca_halo_wait(halo, TCA_DEFAULT), 0, NULL, "wait");
        }
        expect((int)tca_halo_buffer(halo), 1, NULL, "the buffer of its fourth start");
        for (uint64_t i = 1; rank == 1 && i <= COLUMNS; i++)
            expect((int)memory[0][i], width ? (int)((ROWS - 1) * (COLUMNS + 2) + i) : -1, NULL,
                   "the last row");
        tca_halo_free(halo);
    }
}

/* No rank has an element. */
static void nothing(void)
{
    struct tca_halo_array one = {.element_bytes = 8};
    struct tca_halo_args args = args_of(&one, 1);
    struct tca_halo *halo = NULL;

    check(tca_halo_new(session, &args, &halo), "an exchange of nothing");
    expect((int)tca_halo_faces(halo), 1, NULL, "its faces");
    for (int step = 0; step < 3; step++) {
        expect(tca_halo_start(halo), 0, NULL, "start");
        expect(tca_halo_test_face(halo, 0), 1, NULL, "its face");
        expect(tca_halo_wait(halo, TCA_DEFAULT), 0, NULL, "wait");
    }
    tca_halo_free(halo);
}

int main(void)
{
    const uint64_t bytes = (ROWS + 2 + 7) * (COLUMNS + 2) * sizeof(double);

    if (tca_open(NULL, &session) < 0 || tca_alloc(session, bytes, (void **)&memory[0]) < 0 ||
        tca_alloc(session, bytes, (void **)&memory[1]) < 0) {
        printf("%s\n", tca_error_text());
        return 1;
    }
    rank = tca_rank(session);
    by_one_rank();
    by_a_liar();
    by_both();
    by_disagreement();
    faces();
    slots();
    late();
    empty();
    nothing();
    many();
    tca_close(session);
    return wrong;
}
