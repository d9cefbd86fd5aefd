#include "client/core/launcher.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/core/hydra.h"
#include "proto/limits.h"

static pid_t slurm_task(void)
{
    const char *text = launcher_variable("SLURM_TASK_PID");
    return text ? (pid_t)strtol(text, NULL, 10) : 0;
}

/* 0: unknown or none. */
static pid_t parent_of(pid_t pid)
{
    char path[64], text[512];
    int parent = 0;
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    if (fgets(text, sizeof(text), file)) {
        const char *behind = strrchr(text, ')'); /* the name before it may contain any character */
        if (!behind || sscanf(behind, ") %*c %d", &parent) != 1)
            parent = 0;
    }
    fclose(file);
    return parent;
}

/* The child of the proxy from which we descend. */
static pid_t hydra_task(void)
{
    pid_t proxy = hydra_proxy(), pid = getpid();
    if (proxy <= 0)
        return 0;
    for (pid_t parent; (parent = parent_of(pid)) > 1; pid = parent)
        if (parent == proxy)
            return pid;
    return 0;
}

/*
 * In order of preference where innermost() cannot decide. Where the less known variables come from:
 * JSM: LSFEnvironment of PyTorch Lightning (rank and size); an environment printed on Summit
 *   (github.com/STEllAR-GROUP/octotiger/issues/334) has no other JSM_NAMESPACE_* that could name
 *   the job; the namespace is that of PMIx, of which JSM is a server.
 * torchrun: torch/distributed/elastic/agent/server/local_elastic_agent.py.
 * Flux: flux-environment(7). FLUX_JOB_ID is F58, which begins with the letter U+0192.
 * PALS: mpi_cray_shasta.c of Slurm, which sets the same; the size is in PMI_SIZE only.
 * MVAPICH: setup_global_environment() and setup_local_environment() of mpispawn.c (MVAPICH2 2.x),
 *   which name the host of mpirun_rsh nowhere but for themselves; MPIRUN_ID is its pid there.
 * Slurm: SLURM_STEP_NUM_TASKS, not SLURM_NTASKS, which a batch script has, too, although it is a
 *   single process. Its PMI_* and PMIX_* have the same values as its own variables.
 */
static const struct launcher launchers[] = {
    {"Open MPI",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     {"PMIX_NAMESPACE"},
     .local = "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"PMIx",
     "PMIX_RANK",
     "PMIX_SIZE",
     {"PMIX_NAMESPACE"},
     .sizeless = true}, /* MPI_Init() sets them, too */
    {"JSM", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", {"LSB_JOBID", "PMIX_NAMESPACE"}},
    {"torchrun",
     "RANK",
     "WORLD_SIZE",
     {"TORCHELASTIC_RUN_ID", "MASTER_PORT"},
     "TORCHELASTIC_RUN_ID",
     .local = "LOCAL_WORLD_SIZE"},
    {"Flux", "FLUX_TASK_RANK", "FLUX_JOB_SIZE", {"FLUX_JOB_ID"}},
    {"PALS", "PALS_RANKID", "PMI_SIZE", {"PALS_APID"}},
    {"MPICH",
     "PMI_RANK",
     "PMI_SIZE",
     {NULL},
     "MPI_LOCALNRANKS",
     hydra_task,
     .local = "MPI_LOCALNRANKS"},
    {"MVAPICH",
     "MV2_COMM_WORLD_RANK",
     "MV2_COMM_WORLD_SIZE",
     {"MPIRUN_ID", "MPIRUN_NPROCS"},
     .local = "MV2_COMM_WORLD_LOCAL_SIZE"},
    {"Slurm",
     "SLURM_PROCID",
     "SLURM_STEP_NUM_TASKS",
     {"SLURM_JOB_ID", "SLURM_STEP_ID"},
     .task = slurm_task,
     .sizeless = true, /* a batch script is no step */
     .components = "SLURM_HET_SIZE",
     .local = "SLURM_STEP_TASKS_PER_NODE"},
    {"PMI", "PMI_RANK", "PMI_SIZE", {NULL}},
};
enum { LAUNCHERS = sizeof(launchers) / sizeof(launchers[0]) };

const char *launcher_variable(const char *name)
{
    const char *text = getenv(name);
    return text && text[0] ? text : NULL;
}

uint32_t launcher_local_size(const struct launcher *launcher)
{
    const char *text = launcher->local ? launcher_variable(launcher->local) : NULL;
    if (!text || *text < '1' || *text > '9')
        return 0;
    char *end;
    const unsigned long number = strtoul(text, &end, 10);
    const bool same = *end == '\0' || (strncmp(end, "(x", 2) == 0 && !strchr(end, ','));
    return same && number <= GROUP_SIZE_MAX ? (uint32_t)number : 0;
}

const struct launcher *launcher_without_size(void)
{
    for (size_t i = 0; i < LAUNCHERS; i++)
        if (launcher_variable(launchers[i].rank) && !launcher_variable(launchers[i].size) &&
            launchers[i].job[0] && launcher_variable(launchers[i].job[0]) && !launchers[i].sizeless)
            return &launchers[i];
    return NULL;
}

static bool present(const struct launcher *launcher)
{
    return launcher_variable(launcher->rank) && launcher_variable(launcher->size) &&
           (!launcher->mark || launcher_variable(launcher->mark));
}

/* The initial environment of a process: "NAME=value" strings, each terminated by NUL, and an empty
 * string at the end. The caller frees it. NULL: not readable, or no such process. */
static char *environment_of(pid_t pid)
{
    char path[64], *text = NULL;
    size_t bytes = 0, room = 0;
    ssize_t n = 0;
    snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    do {
        if (room - bytes < 4096) {
            char *larger = realloc(text, room += 65536);
            if (!larger) {
                n = -1;
                break;
            }
            text = larger;
        }
        n = read(fd, text + bytes, room - bytes - 2);
        bytes += n > 0 ? (size_t)n : 0;
    } while (n > 0);
    close(fd);
    if (n < 0 || bytes == 0) {
        free(text);
        return NULL;
    }
    memset(text + bytes, 0, 2);
    return text;
}

/* Whether the environment has the variable with this process's value. */
static bool has_ours(const char *environment, const char *name)
{
    const char *ours = getenv(name);
    size_t length = strlen(name);
    for (const char *at = environment; *at; at += strlen(at) + 1)
        if (strncmp(at, name, length) == 0 && at[length] == '=')
            return ours && strcmp(at + length + 1, ours) == 0;
    return false;
}

/*
 * A launcher runs inside another if the process that it started already had the other's rank in its
 * environment. 1: this one is inside all others present; 0: one of them is inside it; -1: unknown.
 */
static int innermost(const struct launcher *launcher)
{
    int result = 1;
    pid_t task = launcher->task ? launcher->task() : 0;
    char *environment = task > 0 ? environment_of(task) : NULL;
    if (!environment)
        return -1;
    for (size_t i = 0; i < LAUNCHERS && result > 0; i++)
        if (present(&launchers[i]) && !has_ours(environment, launchers[i].rank))
            result = 0;
    free(environment);
    return result;
}

const struct launcher *launcher_find(void)
{
    const struct launcher *known = NULL, *guess = NULL, *only = NULL;
    size_t count = 0;
    for (size_t i = 0; i < LAUNCHERS; i++)
        if (present(&launchers[i])) {
            only = &launchers[i];
            count++;
        }
    if (count < 2)
        return only;
    for (size_t i = 0; i < LAUNCHERS; i++) {
        if (!present(&launchers[i]))
            continue;
        int r = innermost(&launchers[i]);
        if (r > 0)
            known = &launchers[i]; /* the last one: Slurm inside MPICH replaces MPICH's PMI_* */
        else if (r < 0 && !guess)
            guess = &launchers[i];
    }
    return known ? known : guess ? guess : only;
}
