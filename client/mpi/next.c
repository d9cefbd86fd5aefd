/* Where the MPI's functions are. */
#include "client/mpi/next.h"

#include <dlfcn.h>
#include <stddef.h>

struct next next;

static const struct {
    const char *name;
    size_t offset;
} functions[] = {
#define NEXT_NAME(name) {"PMPI_" #name, offsetof(struct next, name)},
    NEXT_FUNCTIONS(NEXT_NAME) NEXT_OWN(NEXT_NAME)
#undef NEXT_NAME
};

/* A name that the linker finds in the MPI: this library needs it. */
static __attribute__((used)) int (*const needed)(int *flag) = PMPI_Initialized;

/* This library is linked with its MPI, which is therefore behind it in the global scope, also where
 * a program loads the MPI with dlopen() and RTLD_LOCAL, as Python does: it is the same library. */
static __attribute__((constructor)) void find(void)
{
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
        *(void **)((char *)&next + functions[i].offset) = dlsym(RTLD_NEXT, functions[i].name);
}
