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

/* Room for as many as the caller thinks there are, and for all that there are. */
static tcaHandle *gather(const tcaHandle *own, size_t room)
{
    struct tca *session = tcaGetSession();
    const size_t size = tca_size(session);
    tcaHandle *all = calloc(room > size ? room : size, sizeof(*all));
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
    if (n < 1)
        give_up("a list of less than one handle");
    *ret_list = gather(&own, (size_t)n);
}
