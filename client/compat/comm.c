/* libtcacomm: the one call that involves the other processes. It gathers by the session, whose
 * ranks are those of MPI_COMM_WORLD (both have them from the launcher), and so works with every
 * MPI. */
#include <stdio.h>
#include <stdlib.h>

#include "client/include/tca-api.h"
#include "client/include/tca.h"

static _Noreturn void give_up(const char *why)
{
    fprintf(stderr, "tcaCreateHandleList: %s\n", why);
    exit(1);
}

static tcaHandle *gather(const tcaHandle *own)
{
    struct tca *session = tcaGetSession();
    tcaHandle *all = calloc(tca_size(session), sizeof(*all));
    if (!all)
        give_up("out of memory");
    if (tca_allgather(session, own, sizeof(*own), all, TCA_FOREVER) < 0)
        give_up(tca_error_text());
    return all;
}

TCA_API void tcaCreateHandleList(tcaHandle **ret_list, int n, double *buf, size_t bytes)
{
    tcaHandle own;
    tcaresult result = tcaCreateHandle(&own, buf, bytes, tcaMemoryGPU);
    if (result != TCA_SUCCESS)
        give_up(tcaGetErrorString(result));
    if (n < 1 || (uint32_t)n > tca_size(tcaGetSession())) {
        fprintf(stderr, "tcaCreateHandleList: %d handles of a job of %u processes\n", n,
                tca_size(tcaGetSession()));
        exit(1);
    }
    *ret_list = gather(&own);
}
