/* The call that involves the other processes. It gathers through the session, whose
 * ranks equal those of MPI_COMM_WORLD because both come from the launcher. So it works with every
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

/* Returns an array for `room` handles or the size of the job, whichever is larger. */
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
        give_up("tcaCreateHandleList: the list must have at least one handle");
    *ret_list = gather(&own, (size_t)n);
}
