/* Sums, maxima, broadcast, barrier: operations that were prepared once, on a part of the data at a
 * time. */
#include <string.h>

#include "client/qmp/qmp.h"

static int run(struct tca_coll *coll)
{
    int r = tca_coll_start(coll);
    return r < 0 ? r : tca_coll_wait(coll, TCA_FOREVER);
}

static double add(double a, double b)
{
    return a + b;
}

static double larger(double a, double b)
{
    return b > a || b != b ? b : a; /* not a number, if one is not */
}

/* Every rank combines the values of all ranks by itself, in the order of ranks. */
static int reduce(struct tca_qmp *qmp, double *values, uint64_t count,
                  double (*combine)(double, double))
{
    int r = 0;

    for (uint64_t first = 0; r >= 0 && first < count; first += QMP_VALUES) {
        uint64_t part = count - first < QMP_VALUES ? count - first : QMP_VALUES;
        memcpy(qmp->own, values + first, part * sizeof(double));
        r = run(qmp->gather);
        for (uint64_t i = 0; r >= 0 && i < part; i++) {
            double result = qmp->all[i];
            for (uint32_t rank = 1; rank < qmp->size; rank++)
                result = combine(result, qmp->all[rank * QMP_VALUES + i]);
            values[first + i] = result;
        }
    }
    return r;
}

int tca_qmp_sum(struct tca_qmp *qmp, double *values, uint64_t count)
{
    return reduce(qmp, values, count, add);
}

int tca_qmp_max(struct tca_qmp *qmp, double *values, uint64_t count)
{
    return reduce(qmp, values, count, larger);
}

int tca_qmp_broadcast(struct tca_qmp *qmp, void *data, uint64_t bytes)
{
    uint8_t *to = data;
    int r = 0;

    for (uint64_t first = 0; r >= 0 && first < bytes; first += QMP_BYTES) {
        uint64_t part = bytes - first < QMP_BYTES ? bytes - first : QMP_BYTES;
        if (qmp->rank == 0)
            memcpy(qmp->data, to + first, part);
        r = run(qmp->broadcast);
        if (r >= 0)
            memcpy(to + first, qmp->data, part);
    }
    return r;
}

int tca_qmp_barrier(struct tca_qmp *qmp)
{
    return run(qmp->barrier);
}
