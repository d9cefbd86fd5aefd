#include "loops.h"

#include "tests/bench/check.h"

static uint64_t face_elements(const struct bench_case *one)
{
    return one->bytes / sizeof(double);
}

static void *reach(struct tca *session, const void *memory, uint64_t bytes)
{
    struct tca_handle mine, all[2];
    check(tca_handle_of(session, memory, bytes, &mine), "naming memory");
    check(tca_allgather(session, &mine, sizeof(mine), all, TCA_DEFAULT), "meeting");
    return tca_reach(session, &all[1 - tca_rank(session)]);
}

bool loops_init(struct loops *loops, struct tca *session, const struct bench_case *one,
                double *const arrays[2])
{
    const uint64_t bytes = sizeof(struct loops_room) + 4 * one->bytes;
    *loops = (struct loops){.one = one};
    check(tca_alloc(session, bytes, (void **)&loops->my_room), "memory");
    atomic_init(&loops->my_room->arrived, 0);
    loops->their_room = reach(session, loops->my_room, bytes);
    for (int buffer = 0; buffer < 2; buffer++) {
        loops->mine[buffer] = arrays[buffer];
        loops->theirs[buffer] = reach(session, arrays[buffer], case_elements(one) * sizeof(double));
    }
    return loops->their_room && loops->theirs[0] && loops->theirs[1];
}

void loops_deinit(struct loops *loops, struct tca *session)
{
    check(tca_free(session, loops->my_room), "freeing memory");
}

/* The face's runs of consecutive elements, which begin `pitch` elements apart. */
static void copy_face(const struct bench_case *one, double *restrict to, uint64_t to_pitch,
                      const double *restrict from, uint64_t from_pitch)
{
    const uint64_t run = case_stride(one), runs = face_elements(one) / run;
    for (uint64_t n = 0; n < runs; n++)
        for (uint64_t i = 0; i < run; i++)
            to[n * to_pitch + i] = from[n * from_pitch + i];
}

void loops_exchange(struct loops *loops, bool packs)
{
    const struct bench_case *one = loops->one;
    const uint64_t run = case_stride(one), pitch = run * case_full(one, one->across);
    const uint64_t buffer = loops->done++ & 1;
    for (int high = 0; high < 2; high++) {
        const uint64_t room = (2 * buffer + (unsigned)high) * face_elements(one);
        const double *face = loops->mine[buffer] + case_sent(one, high);
        if (packs)
            copy_face(one, loops->their_room->faces + room, run, face, pitch);
        else
            copy_face(one, loops->theirs[buffer] + case_kept(one, !high), pitch, face, pitch);
    }
    atomic_store_explicit(&loops->their_room->arrived, loops->done, memory_order_release);
    /* acquire: pairs with the other rank's release */
    for (uint64_t round = 0;
         atomic_load_explicit(&loops->my_room->arrived, memory_order_acquire) < loops->done;
         round++)
        tca_pause(round);
    for (int high = 0; packs && high < 2; high++)
        copy_face(one, loops->mine[buffer] + case_kept(one, !high), pitch,
                  loops->my_room->faces + (2 * buffer + (unsigned)high) * face_elements(one), run);
}
