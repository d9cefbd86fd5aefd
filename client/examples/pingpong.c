/*
 * Two ranks with one plan each: put every other 8 bytes of an array to the other rank, notify it,
 * and wait for its notification.
 *
 *     tca-cluster run -n 2 -- pingpong            (or mpirun -n 2 pingpong)
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <tca.h>

static void check(int result)
{
    if (result >= 0)
        return;
    fprintf(stderr, "pingpong: %s: %s\n", tca_strerror(result), tca_error_text());
    exit(1);
}

int main(void)
{
    enum { COUNT = 1000, BYTES = COUNT * 16, ROUNDS = 1000 };
    struct tca *session;
    struct tca_region *region;
    struct tca_layout *every_other;
    struct tca_plan *plan;
    struct tca_handle own, all[2];

    check(tca_open(NULL, &session));
    uint32_t peer = 1 - tca_rank(session);
    if (tca_size(session) != 2)
        return fprintf(stderr, "pingpong: needs two ranks, not %u\n", tca_size(session)), 2;

    /* The first half is sent, the second received. */
    check(tca_region_alloc(session, 2 * BYTES, &region));
    check(tca_region_handle(region, BYTES, BYTES, &own));
    check(tca_allgather(session, &own, sizeof(own), all, TCA_DEFAULT));

    check(tca_layout_strided(COUNT, 8, 16, &every_other));
    check(tca_plan_new(session, NULL, &plan));
    check(tca_plan_put(plan, &(struct tca_put){.source = region,
                                               .source_layout = every_other,
                                               .target = all[peer],
                                               .target_layout = every_other}));
    check(tca_plan_notify(plan, peer, 0));
    check(tca_plan_commit(plan, TCA_DEFAULT));

    uint64_t *send = tca_region_address(region), *receive = send + BYTES / 8;
    for (uint64_t turn = 0; turn < 2 * ROUNDS; turn++) {
        if (turn % 2 == tca_rank(session)) {
            for (uint64_t i = 0; i < COUNT; i++)
                send[2 * i] = turn * COUNT + i;
            check(tca_start(plan));
            check(tca_wait(plan, TCA_DEFAULT));
            continue;
        }
        check(tca_notified_wait(session, peer, 0, TCA_DEFAULT));
        for (uint64_t i = 0; i < COUNT; i++)
            if (receive[2 * i] != turn * COUNT + i || receive[2 * i + 1] != 0)
                return fprintf(stderr, "pingpong: wrong value in turn %" PRIu64 "\n", turn), 1;
    }

    struct tca_receipt receipt;
    check(tca_plan_receipt(plan, &receipt));
    printf("rank %u on node %u: %" PRIu64 " starts of %" PRIu64 " bytes by %s in the %s's seat\n",
           tca_rank(session), tca_node(session), receipt.starts, receipt.bytes,
           tca_rail_name(receipt.rail), tca_seat_name(receipt.seat));
    tca_layout_free(every_other);
    check(tca_barrier(session, TCA_DEFAULT)); /* both ranks are done */
    tca_close(session);
    return 0;
}
