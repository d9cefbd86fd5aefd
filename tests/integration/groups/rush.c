/*
 * rush FIRST COUNT SIZE ROUNDS: processes are the ranks FIRST, FIRST + 1 ... of a group of SIZE.
 * They join it at the same moment, meet, and leave it again; every second time, the environment
 * says how many of them there are on this node. Reports each join that fails; prints how many did
 * not.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/include/tca.h"

struct shared {
    pthread_barrier_t barrier;
    atomic_uint joined;
};

static const char *number(unsigned value, char text[16])
{
    snprintf(text, 16, "%u", value);
    return text;
}

/* What MPICH's launcher says. */
static void set_launcher(unsigned rank, unsigned size, unsigned local)
{
    char text[16];
    setenv("PMI_RANK", number(rank, text), 1);
    setenv("PMI_SIZE", number(size, text), 1);
    setenv("MPI_LOCALNRANKS", number(local, text), 1);
}

static bool join(const char *name, unsigned rank, unsigned size, bool told)
{
    const struct tca_open_args args = {.group = name, .rank = rank, .size = size};
    struct tca *session = NULL;

    setenv("TCA_GROUP", name, 1);
    int r = tca_open(told ? NULL : &args, &session);
    if (r == 0)
        r = tca_barrier(session, TCA_DEFAULT);
    if (r < 0)
        fprintf(stderr, "%s, rank %u: %d: %s\n", name, rank, r, tca_error_text());
    const bool ok = r == 0 && tca_rank(session) == rank && tca_size(session) == size;
    tca_close(session);
    return ok;
}

static void be_rank(struct shared *shared, unsigned rank, unsigned count, unsigned size,
                    unsigned rounds)
{
    char name[32];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    set_launcher(rank, size, count);
    for (unsigned round = 0; round < rounds; round++) {
        snprintf(name, sizeof(name), "rush-%u", round);
        pthread_barrier_wait(&shared->barrier);
        if (join(name, rank, size, round % 2 == 0))
            atomic_fetch_add(&shared->joined, 1);
    }
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    const unsigned first = (unsigned)atoi(argv[1]), count = (unsigned)atoi(argv[2]),
                   size = (unsigned)atoi(argv[3]), rounds = (unsigned)atoi(argv[4]);
    struct shared *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_barrierattr_t attributes;

    if (shared == MAP_FAILED || pthread_barrierattr_init(&attributes) != 0 ||
        pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED) != 0 ||
        pthread_barrier_init(&shared->barrier, &attributes, count) != 0)
        return 2;
    for (unsigned i = 0; i < count; i++) {
        const pid_t child = fork();
        if (child < 0)
            return 2;
        if (child == 0) {
            be_rank(shared, first + i, count, size, rounds);
            _exit(0);
        }
    }
    while (wait(NULL) > 0)
        ;
    printf("%u\n", atomic_load(&shared->joined));
    return atomic_load(&shared->joined) == count * rounds ? 0 : 1;
}
