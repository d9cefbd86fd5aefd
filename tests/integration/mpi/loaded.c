/* A program that loads its MPI at run time, for itself, as Python does with mpi4py:
 *
 *     loaded LIBRARY [ARGUMENT]...
 */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    int (*run)(int argc, char **argv) =
        library ? (int (*)(int, char **))dlsym(library, "run") : NULL;

    if (!run) {
        fprintf(stderr, "loaded: %s\n", argc > 1 ? dlerror() : "which library?");
        return 2;
    }
    return run(argc - 1, argv + 1);
}
