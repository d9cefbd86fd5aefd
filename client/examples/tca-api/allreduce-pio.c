/*
 * Sums a few numbers over all processes by CPU stores: every process stores its numbers, followed
 * by a flag, at every other one, which polls the flags. Two sets of buffers alternate: a process in
 * round r has all flags of round r - 1, so the buffers of round r - 2 are free.
 *
 *     tca-cluster mpirun -n 4 -- allreduce-pio
 */
#include <sched.h>

#include "example.h"

enum { COUNT = 3, ROUNDS = 200, POLLS = 100 };

struct message {
    double numbers[COUNT];
    long mark;
};

/* With a core for each process, the loop alone would suffice. */
static void wait_for(const struct message *message, long mark)
{
    for (long polls = 0; __atomic_load_n(&message->mark, __ATOMIC_ACQUIRE) != mark; polls++) {
        if (polls < POLLS)
            _mm_pause();
        else
            sched_yield();
    }
}

int main(int argc, char **argv)
{
    struct message *places; /* [2][size] */
    example_begin(&argc, &argv);
    tcaHandle *handles = example_memory(&places, 2 * (size_t)size * sizeof(*places), tcaMemoryCPU);
    tcaPIOHandle *remote = malloc((size_t)size * sizeof(*remote));
    for (int to = 0; to < size; to++)
        TCA_CHECK(
            tcaSetPIORegion(&remote[to], &handles[to], 0, 2 * (size_t)size * sizeof(*places)));

    for (long round = 1; round <= ROUNDS; round++) {
        const long place = round % 2 * size;
        struct message own = {.mark = round};
        double sums[COUNT] = {0};
        for (int i = 0; i < COUNT; i++)
            own.numbers[i] = (rank + 1) * round + i;
        for (int to = 0; to < size; to++)
            TCA_CHECK(tcaSendPIO(&remote[to], (off_t)((place + rank) * (long)sizeof(own)), &own,
                                 sizeof(own)));
        TCA_CHECK(tcaSendPIOCommit());
        for (int from = 0; from < size; from++) {
            wait_for(&places[place + from], round);
            for (int i = 0; i < COUNT; i++)
                sums[i] += places[place + from].numbers[i];
        }
        for (int i = 0; i < COUNT; i++)
            wrong += sums[i] != size * (size + 1) / 2 * round + (double)size * i;
    }
    return example_end("allreduce-pio");
}
