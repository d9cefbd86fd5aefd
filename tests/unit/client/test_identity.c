#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>

#include "client/core/identity.h"
#include "tests/unit/client/environment.h"

struct row {
    struct tca_open_args args;
    const char *pairs[10];
    int result;
    struct identity identity;
};

static const struct row table[] = {
    /* nobody says anything */
    {.identity = {"", 0, 1}},
    /* ours */
    {.pairs = {"TCA_GROUP=g", "TCA_RANK=1", "TCA_SIZE=2"}, .identity = {"g", 1, 2}},
    {.pairs = {"TCA_GROUP=g@3", "TCA_RANK=0", "TCA_SIZE=4096"}, .identity = {"g@3", 0, 4096}},
    {.pairs = {"TCA_GROUP=g", "TCA_RANK=1"}, .result = -EINVAL},
    {.pairs = {"TCA_SIZE=2", "TCA_RANK=1"}, .result = -EINVAL},
    {.pairs = {"TCA_GROUP=g", "TCA_RANK=2", "TCA_SIZE=2"}, .result = -EINVAL},
    {.pairs = {"TCA_GROUP=g", "TCA_RANK=0", "TCA_SIZE=1048577"}, .result = -EINVAL},
    {.pairs = {"TCA_GROUP=g", "TCA_RANK=0", "TCA_SIZE=0"}, .result = -EINVAL},
    {.pairs = {"TCA_GROUP=g", "TCA_RANK=x", "TCA_SIZE=2"}, .result = -EINVAL},
    {.pairs = {"TCA_GROUP=@3", "TCA_RANK=0", "TCA_SIZE=2"}, .result = -EINVAL},
    {.pairs = {"TCA_GROUP=0123456789012345678901234567890123456789012345678901234567890123",
               "TCA_RANK=0", "TCA_SIZE=2"},
     .result = -EINVAL},
    /* launchers */
    {.pairs = {"OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_SIZE=4", "PMIX_NAMESPACE=1893269505",
               "PMIX_RANK=3"},
     .identity = {"1893269505", 3, 4}},
    /* srun --mpi=pmix, --mpi=pmi2 */
    {.pairs = {"PMIX_RANK=1", "PMIX_NAMESPACE=slurm.pmix.17.0", "SLURM_PROCID=1",
               "SLURM_STEP_NUM_TASKS=2", "SLURM_JOB_ID=17", "SLURM_STEP_ID=0"},
     .identity = {"17.0", 1, 2}},
    {.pairs = {"PMI_RANK=1", "PMI_SIZE=2", "PMI_JOBID=17.0", "SLURM_PROCID=1",
               "SLURM_STEP_NUM_TASKS=2", "SLURM_JOB_ID=17", "SLURM_STEP_ID=0"},
     .identity = {"17.0", 1, 2}},
    {.pairs = {"SLURM_PROCID=5", "SLURM_STEP_NUM_TASKS=8", "SLURM_JOB_ID=17", "SLURM_STEP_ID=2"},
     .identity = {"17.2", 5, 8}},
    {.pairs = {"PMI_RANK=1", "PMI_SIZE=2"}, .identity = {"pmi", 1, 2}},
    /* others */
    {.pairs = {"FLUX_TASK_RANK=1", "FLUX_JOB_SIZE=2", "FLUX_JOB_ID=\u01927Q"},
     .identity = {"\u01927Q", 1, 2}},
    {.pairs = {"PALS_RANKID=1", "PALS_APID=9a-b", "PMI_RANK=1", "PMI_SIZE=2"},
     .identity = {"9a-b", 1, 2}},
    {.pairs = {"PALS_RANKID=1", "PALS_APID=9a-b"}, .result = -EINVAL}, /* no size */
    {.pairs = {"PALS_RANKID=1", "PALS_APID=9a-b", "TCA_GROUP=g", "TCA_RANK=1", "TCA_SIZE=2"},
     .identity = {"g", 1, 2}},
    {.pairs = {"JSM_NAMESPACE_RANK=1", "JSM_NAMESPACE_SIZE=2", "LSB_JOBID=7", "PMIX_NAMESPACE=0"},
     .identity = {"7.0", 1, 2}},
    {.pairs = {"JSM_NAMESPACE_RANK=1", "JSM_NAMESPACE_SIZE=2"}, .result = -EINVAL}, /* no name */
    {.pairs = {"MV2_COMM_WORLD_RANK=1", "MV2_COMM_WORLD_SIZE=2", "MPIRUN_ID=17", "MPIRUN_NPROCS=2"},
     .identity = {"17.2", 1, 2}},
    {.pairs = {"RANK=1", "WORLD_SIZE=2", "TORCHELASTIC_RUN_ID=none", "MASTER_PORT=29500"},
     .identity = {"none.29500", 1, 2}},
    {.pairs = {"RANK=1", "WORLD_SIZE=2"}, .identity = {"", 0, 1}}, /* anybody's */
    {.pairs = {"SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=2", "SLURM_JOB_ID=101", "SLURM_STEP_ID=0",
               "SLURM_HET_JOB_ID=100", "SLURM_HET_SIZE=2"},
     .result = -EINVAL},
    {.pairs = {"SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=2", "SLURM_JOB_ID=101", "SLURM_STEP_ID=0",
               "SLURM_HET_SIZE=2", "TCA_GROUP=g", "TCA_RANK=2", "TCA_SIZE=3"},
     .identity = {"g", 2, 3}},
    /* torchrun inside srun */
    {.pairs = {"SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=1", "SLURM_JOB_ID=17", "SLURM_STEP_ID=2",
               "RANK=1", "WORLD_SIZE=2", "TORCHELASTIC_RUN_ID=7", "MASTER_PORT=1"},
     .identity = {"7.1", 1, 2}},
    /* a batch script is no step */
    {.pairs = {"SLURM_PROCID=0", "SLURM_NTASKS=8", "SLURM_JOB_ID=17"}, .identity = {"", 0, 1}},
    /* mpirun inside a step of Slurm: the inner one */
    {.pairs = {"SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=1", "SLURM_JOB_ID=17", "SLURM_STEP_ID=2",
               "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2", "PMIX_NAMESPACE=5"},
     .identity = {"5", 1, 2}},
    {.pairs = {"SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=1", "SLURM_JOB_ID=17", "SLURM_STEP_ID=2",
               "PMI_RANK=1", "PMI_SIZE=2", "MPI_LOCALNRANKS=2"},
     .identity = {"pmi", 1, 2}},
    {.pairs = {"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2"},
     .result = -EINVAL}, /* no name */
    {.pairs = {"PMI_RANK=one", "PMI_SIZE=2"}, .result = -EINVAL},
    {.pairs = {"PMI_RANK=-1", "PMI_SIZE=2"}, .result = -EINVAL},
    /* ours override the launcher's, one by one */
    {.pairs = {"PMI_RANK=1", "PMI_SIZE=2", "TCA_GROUP=mine"}, .identity = {"mine", 1, 2}},
    {.pairs = {"PMI_RANK=1", "PMI_SIZE=2", "TCA_GROUP=mine", "TCA_RANK=0", "TCA_SIZE=3"},
     .identity = {"mine", 0, 3}},
    /* arguments before both */
    {.args = {.group = "a", .rank = 2, .size = 3},
     .pairs = {"TCA_GROUP=g", "TCA_RANK=1", "TCA_SIZE=2"},
     .identity = {"a", 2, 3}},
    {.args = {.rank = 1, .size = 2}, .pairs = {"TCA_GROUP=g"}, .identity = {"g", 1, 2}},
    {.args = {.rank = 1, .size = 2},
     .pairs = {"PMI_RANK=0", "PMI_SIZE=2"},
     .identity = {"pmi", 1, 2}},
    {.args = {.rank = 0, .size = 1}, .pairs = {"PMI_RANK=0", "PMI_SIZE=2"}, .identity = {"", 0, 1}},
    {.args = {.rank = 1, .size = 2}, .result = -EINVAL},
    {.args = {.group = "a"}, .result = -EINVAL},
    {.args = {.rank = 1}, .result = -EINVAL},
    {.args = {.group = "a", .rank = 3, .size = 3}, .result = -EINVAL},
    {.args = {.group = "a", .size = 1048577}, .result = -EINVAL},
};

Test(identity, table)
{
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct identity identity = {.group = "untouched"};
        set_environment(table[i].pairs);
        int r = identity_find(&table[i].args, &identity);
        cr_expect_eq(r, table[i].result, "row %zu: %d: %s", i, r, tca_error_text());
        if (table[i].result < 0) {
            cr_expect_str_eq(identity.group, "untouched", "row %zu", i);
            continue;
        }
        cr_expect_str_eq(identity.group, table[i].identity.group, "row %zu", i);
        cr_expect_eq(identity.rank, table[i].identity.rank, "row %zu", i);
        cr_expect_eq(identity.size, table[i].identity.size, "row %zu", i);
    }
}

/* ---- ranks of the same node ---- */

Test(identity, local_size)
{
    static const struct {
        const char *pairs[8];
        uint32_t size;
    } sizes[] = {
        {{"PMI_RANK=1", "PMI_SIZE=8", "MPI_LOCALNRANKS=4"}, 4},
        {{"PMI_RANK=1", "PMI_SIZE=8", "MPI_LOCALNRANKS=-4"}, 0},
        {{"PMI_RANK=1", "PMI_SIZE=8", "MPI_LOCALNRANKS=4x"}, 0},
        {{"PMI_RANK=1", "PMI_SIZE=8", "MPI_LOCALNRANKS=99999999999999999999"}, 0},
        {{"PMI_RANK=1", "PMI_SIZE=8"}, 0},
        {{"PMI_RANK=1", "PMI_SIZE=8", "MPI_LOCALNRANKS=4", "TCA_GROUP=mine"}, 4},
        {{"PMI_RANK=1", "PMI_SIZE=8", "MPI_LOCALNRANKS=4", "TCA_RANK=2"}, 0},
        {{"SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=8", "SLURM_JOB_ID=1", "SLURM_STEP_ID=0",
          "SLURM_STEP_TASKS_PER_NODE=4(x2)"},
         4},
        {{"SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=7", "SLURM_JOB_ID=1", "SLURM_STEP_ID=0",
          "SLURM_STEP_TASKS_PER_NODE=2(x2),3"},
         0},
        {{"SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=7", "SLURM_JOB_ID=1", "SLURM_STEP_ID=0",
          "SLURM_STEP_TASKS_PER_NODE=4,3"},
         0},
    };
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct identity identity;
        set_environment(sizes[i].pairs);
        cr_assert_eq(identity_find(&(struct tca_open_args){0}, &identity), 0, "row %zu", i);
        cr_expect_eq(identity.local_size, sizes[i].size, "row %zu: %u", i, identity.local_size);
    }
}

/* ---- nested launchers: the environment that Slurm gave to the process decides */

#define STEP    "SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=1", "SLURM_JOB_ID=17", "SLURM_STEP_ID=2"
#define OPENMPI "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2", "PMIX_NAMESPACE=5"
#define HYDRA   "PMI_RANK=1", "PMI_SIZE=2", "MPI_LOCALNRANKS=2"

struct nesting {
    const char *task[10]; /* of the process that Slurm started */
    const char *own[12];  /* of this process, beside SLURM_TASK_PID */
    struct identity identity;
};

static const struct nesting nestings[] = {
    {.task = {STEP}, .own = {STEP, OPENMPI}, .identity = {"5", 1, 2}},
    {.task = {STEP}, .own = {STEP, HYDRA}, .identity = {"pmi", 1, 2}},
    {.task = {STEP}, .own = {STEP, "PMI_RANK=1", "PMI_SIZE=2"}, .identity = {"pmi", 1, 2}},
    /* the same, where Slurm had set PMI_RANK, too, and another launcher has replaced it */
    {.task = {STEP, "PMI_RANK=0", "PMI_SIZE=1"}, .own = {STEP, HYDRA}, .identity = {"pmi", 1, 2}},
    /* srun by a rank of the others */
    {.task = {OPENMPI, STEP}, .own = {OPENMPI, STEP}, .identity = {"17.2", 0, 1}},
    {.task = {HYDRA, STEP}, .own = {HYDRA, STEP}, .identity = {"17.2", 0, 1}},
    /* srun --mpi=pmi2 by a rank of MPICH */
    {.task = {STEP, "PMI_RANK=0", "PMI_SIZE=1", "MPI_LOCALNRANKS=2"},
     .own = {STEP, "PMI_RANK=0", "PMI_SIZE=1", "MPI_LOCALNRANKS=2"},
     .identity = {"17.2", 0, 1}},
};

/* Its environment can be read only once the kernel has set up the new program. */
static pid_t start_task(const char *const *environment)
{
    static char sleep[] = "/bin/sleep", seconds[] = "1000";
    char *command[] = {sleep, seconds, NULL};
    char path[64];
    pid_t pid;
    cr_assert_eq(
        posix_spawn(&pid, command[0], NULL, NULL, command, (char *const *)(uintptr_t)environment),
        0);
    snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
    for (int byte = EOF; byte == EOF;) {
        FILE *file = fopen(path, "re");
        cr_assert_not_null(file);
        byte = getc(file);
        fclose(file);
    }
    return pid;
}

Test(identity, nested)
{
    for (size_t i = 0; i < sizeof(nestings) / sizeof(nestings[0]); i++) {
        struct identity identity = {.group = "untouched"};
        struct tca_open_args args = {0};
        char number[32];
        pid_t task = start_task(nestings[i].task);
        set_environment(nestings[i].own);
        snprintf(number, sizeof(number), "%d", (int)task);
        setenv("SLURM_TASK_PID", number, 1);
        int r = identity_find(&args, &identity);
        cr_expect_eq(r, 0, "row %zu: %d: %s", i, r, tca_error_text());
        cr_expect_str_eq(identity.group, nestings[i].identity.group, "row %zu: %s", i,
                         identity.group);
        cr_expect_eq(identity.rank, nestings[i].identity.rank, "row %zu", i);
        cr_expect_eq(identity.size, nestings[i].identity.size, "row %zu", i);
        kill(task, SIGKILL);
        waitpid(task, NULL, 0);
    }
}
