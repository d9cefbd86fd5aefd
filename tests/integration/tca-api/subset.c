/* A job in which one process never calls tcaInit(): the others get an error, and do not wait for
 * ever. */
#include "check.h"

int main(int argc, char **argv)
{
    void *memory;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank > 0) {
        tcaresult result = tcaInit(); /* it may be over already */
        if (result == TCA_SUCCESS)
            result = tcaMalloc(&memory, 64, tcaMemoryCPU);
        REQUIRE(result != TCA_SUCCESS);
        REQUIRE(strstr(tcaGetErrorString(result), "every process of the job must call tcaInit()"));
    }
    return end("subset");
}
