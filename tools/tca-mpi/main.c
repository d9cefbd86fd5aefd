/* tca-mpi(1): executes an MPI program with its messages carried by tcad. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/common/find_program.h"
#include "tools/common/must.h"
#include "tools/tca-mpi/elf.h"

enum mpi { OPENMPI, MPICH, MPIS };
static const char *const mpi_names[MPIS + 1] = {"openmpi", "mpich", NULL};
/* Names of the libraries, and which MPI has which. */
static const char *const libraries[] = {"libmpi.so.40", "libmpich.so.12", "libmpi.so.12", NULL};
static const enum mpi mpi_of_library[] = {OPENMPI, MPICH, MPICH};

static void usage(FILE *out)
{
    fputs("Usage: mpirun [...] tca-mpi [OPTION]... PROGRAM [ARGUMENT]...\n"
          "Executes an unmodified MPI program with its messages carried by tcad.\n"
          "\n"
          "      --mpi=NAME   the program's MPI: openmpi or mpich (found out by itself)\n"
          "  -h, --help       print this text\n"
          "  -V, --version    print the version\n"
          "\n"
          "Environment: TCA_MPI=off: with the MPI alone; TCA_MPI_REPORT=1: at the end, print\n"
          "how many messages went which way. See tca-mpi(1).\n",
          out);
}

/* Where execvp() will find it. */
static bool find_in_path(const char *name, char path[static PATH_MAX])
{
    if (strchr(name, '/'))
        return snprintf(path, PATH_MAX, "%s", name) < PATH_MAX && access(path, X_OK) == 0;
    for (const char *list = getenv("PATH"); list && *list;) {
        int length = strcspn(list, ":");
        if (snprintf(path, PATH_MAX, "%.*s/%s", length, list, name) < PATH_MAX &&
            access(path, X_OK) == 0)
            return true;
        list += length + (list[length] == ':');
    }
    return false;
}

/* The MPI of the launcher that has started this process; MPIS: none. */
static enum mpi of_launcher(void)
{
    if (getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMIX_RANK"))
        return OPENMPI;
    if (getenv("PMI_RANK") || getenv("PMI_SIZE"))
        return MPICH;
    return MPIS;
}

/* Which MPI the program uses; MPIS: none, for the reason, or it is not there. A program that loads
 * it later, as Python and Julia do, or that starts another one, as a script does, uses that of the
 * launcher. */
static enum mpi find_mpi(const char *program, char why[static 256])
{
    char path[PATH_MAX];

    *why = 0;
    if (!find_in_path(program, path))
        return MPIS;
    int library = elf_find_needed(path, libraries);
    if (library >= 0)
        return mpi_of_library[library];
    enum mpi mpi = of_launcher();
    if (mpi == MPIS)
        snprintf(why, 256, "it loads no MPI that is known, nor does the launcher tell (--mpi)");
    return mpi;
}

/* Beside this program, as built, or installed. */
static bool find_library(enum mpi mpi, char path[static PATH_MAX])
{
    char own[PATH_MAX];

    if (find_own_directory(own) == 0 &&
        snprintf(path, PATH_MAX, "%s/../client/mpi/libtca-mpi-%s.so", own, mpi_names[mpi]) <
            PATH_MAX &&
        access(path, R_OK) == 0)
        return true;
    snprintf(path, PATH_MAX, "%s/libtca-mpi-%s.so", LIBRARY_DIRECTORY, mpi_names[mpi]);
    return access(path, R_OK) == 0;
}

static void preload(const char *library)
{
    const char *others = getenv("LD_PRELOAD");
    char *all;

    /* Behind tools, which see the program's calls first. */
    if (asprintf(&all, "%s%s%s", others ? others : "", others && *others ? ":" : "", library) < 0)
        all = NULL;
    setenv("LD_PRELOAD", must(all), 1);
    free(all);
}

/* Lets the loader preload the library, unless nothing fits. */
static void prepare(enum mpi mpi, const char *program)
{
    char library[PATH_MAX], why[256] = "";

    if (mpi == MPIS)
        mpi = find_mpi(program, why);
    if (mpi == MPIS && !*why)
        return;
    if (mpi == MPIS)
        fprintf(stderr, "tca-mpi: %.200s runs as it is: %s\n", program, why);
    else if (!find_library(mpi, library))
        fprintf(stderr, "tca-mpi: %.200s runs with its MPI alone: libtca-mpi-%s.so is missing\n",
                program, mpi_names[mpi]);
    else
        preload(library);
}

static enum mpi parse_mpi(const char *name)
{
    int mpi = OPENMPI;

    while (mpi_names[mpi] && strcmp(name, mpi_names[mpi]) != 0)
        mpi++;
    return mpi;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"mpi", required_argument, NULL, 'm'},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
        {NULL, 0, NULL, 0},
    };
    enum mpi mpi = MPIS;

    for (int option; (option = getopt_long(argc, argv, "+hV", options, NULL)) >= 0;) {
        switch (option) {
        case 'm':
            mpi = parse_mpi(optarg);
            if (mpi == MPIS) {
                fprintf(stderr, "tca-mpi: --mpi=%s: openmpi or mpich\n", optarg);
                return 2;
            }
            break;
        case 'h':
            usage(stdout);
            return 0;
        case 'V':
            puts("tca-mpi " TCAD_VERSION);
            return 0;
        default:
            usage(stderr);
            return 2;
        }
    }
    if (optind == argc) {
        usage(stderr);
        return 2;
    }
    prepare(mpi, argv[optind]);
    execvp(argv[optind], argv + optind);
    int error = errno;
    fprintf(stderr, "tca-mpi: %s: %s\n", argv[optind], strerror(error));
    return error == ENOENT ? 127 : 126;
}
