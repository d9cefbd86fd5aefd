#include <criterion/criterion.h>
#include <errno.h>

#include "client/identity.h"
#include "tests/unit/client/environment.h"

struct row {
    struct tca_open_args args;
    const char *pairs[8];
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
    {.pairs = {"TCA_GROUP=g", "TCA_RANK=0", "TCA_SIZE=4097"}, .result = -EINVAL},
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
    {.pairs = {"PMIX_RANK=1", "PMIX_NAMESPACE=slurm.pmix.17.0", "SLURM_STEP_NUM_TASKS=2"},
     .identity = {"slurm.pmix.17.0", 1, 2}},
    {.pairs = {"SLURM_PROCID=5", "SLURM_STEP_NUM_TASKS=8", "SLURM_JOB_ID=17", "SLURM_STEP_ID=2"},
     .identity = {"17.2", 5, 8}},
    {.pairs = {"PMI_RANK=1", "PMI_SIZE=2"}, .identity = {"pmi", 1, 2}},
    /* a batch script is no step */
    {.pairs = {"SLURM_PROCID=0", "SLURM_NTASKS=8", "SLURM_JOB_ID=17"}, .identity = {"", 0, 1}},
    /* mpirun inside a step of Slurm: the inner one */
    {.pairs = {"SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=1", "SLURM_JOB_ID=17", "SLURM_STEP_ID=2",
               "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2", "PMIX_NAMESPACE=5"},
     .identity = {"5", 1, 2}},
    {.pairs = {"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2"},
     .result = -EINVAL}, /* no name */
    {.pairs = {"PMI_RANK=one", "PMI_SIZE=2"}, .result = -EINVAL},
    {.pairs = {"PMI_RANK=-1", "PMI_SIZE=2"}, .result = -EINVAL},
    /* ours before the launcher's, one by one */
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
    {.args = {.group = "a", .size = 4097}, .result = -EINVAL},
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
