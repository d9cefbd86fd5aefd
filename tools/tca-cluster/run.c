#include "tools/tca-cluster/run.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "tools/common/must.h"
#include "tools/tca-cluster/boards.h"
#include "tools/tca-cluster/job.h"
#include "tools/tca-cluster/rails.h"
#include "tools/tca-cluster/say.h"

enum { NODES_DEFAULT = 4 };

/* The cluster of a run: up before, or for this run only. */
struct use {
    struct cluster cluster;
    bool own;
    struct path mark; /* run.PID, unless it is our own */
};

static int exit_code(int r)
{
    return r == -EINTR ? 130 : r == -EINVAL ? 2 : 1;
}

/* Records this run, so that down can end it. -EEXIST: down has been faster. */
static int mark(struct use *use)
{
    struct process self;
    char name[32];
    int lock_fd = cluster_lock(use->cluster.dir, false), r;

    if (lock_fd < 0)
        return lock_fd == -ENOENT ? -EEXIST : lock_fd;
    if (cluster_load(use->cluster.dir, &use->cluster) < 0) {
        close(lock_fd);
        return -EEXIST;
    }
    snprintf(name, sizeof(name), "run.%d", (int)getpid());
    use->mark = cluster_path(use->cluster.dir, name);
    process_find(getpid(), &self);
    r = process_save(&self, use->mark.text);
    close(lock_fd);
    return r < 0 ? complain(-r, "cannot write %s: %s", use->mark.text, strerror(-r)) : 0;
}

/* A separate directory, if another run's cluster is there, which ends with that run. */
static int own_directory(const char *dir, char ret_dir[static PATH_MAX])
{
    char name[PATH_MAX];

    snprintf(name, sizeof(name), "%.*s.%d", PATH_MAX - 16, dir, (int)getpid());
    return cluster_directory(name, ret_dir);
}

static int use_end(struct use *use)
{
    if (!use->own) {
        unlink(use->mark.text);
        return 0;
    }
    int lock_fd = cluster_lock(use->cluster.dir, false);
    int r = lock_fd < 0 ? lock_fd : cluster_down(&use->cluster);
    if (lock_fd >= 0)
        close(lock_fd);
    return r == -ENOENT ? 0 : r;
}

static bool is_left_over(const struct cluster *cluster)
{
    return cluster_alive(cluster) > 0 && cluster->owner.pid > 0 &&
           process_state(&cluster->owner) == PROCESS_GONE;
}

/* A killed run may leave daemons that have not yet noticed its end. */
static int end_leftovers(const char *dir)
{
    struct cluster cluster;
    int lock_fd = cluster_lock(dir, false);
    int r = lock_fd < 0 ? lock_fd : cluster_load(dir, &cluster);

    if (r == 0 && is_left_over(&cluster)) { /* no other process has done it meanwhile */
        say("ending the remains of a killed run in %s", dir);
        r = cluster_down(&cluster);
    }
    if (lock_fd >= 0)
        close(lock_fd);
    return r == -ENOENT ? 0 : r;
}

/* -EEXIST: a cluster has come up in the directory meanwhile, or gone down. */
static int use_try(struct use *use, const char *dir, const struct run_options *options,
                   unsigned nodes)
{
    char own[PATH_MAX];
    int r = cluster_load(dir, &use->cluster);
    unsigned alive = r == 0 ? cluster_alive(&use->cluster) : 0;

    use->own = false;
    if (r == 0 && is_left_over(&use->cluster)) {
        if ((r = end_leftovers(dir)) < 0)
            return r;
    } else if (alive > 0) {
        if (alive < use->cluster.nodes)
            say("only %u of %u daemons are alive: see tca-cluster status", alive,
                use->cluster.nodes);
        if (process_state(&use->cluster.owner) == PROCESS_GONE)
            return mark(use);
        if ((r = own_directory(dir, own)) < 0)
            return r;
        dir = own;
    } else if (r < 0 && r != -ENOENT) {
        return r;
    }
    struct up_options up = options->up;
    up.nodes = nodes;
    up.owned = true;
    r = cluster_up(dir, &up, &use->cluster);
    if (r < 0)
        return r;
    use->own = true; /* whom down ends is in the cluster's state */
    say("%u node%s up for this run in %s", nodes, nodes == 1 ? "" : "s", use->cluster.dir);
    return 0;
}

static int use_begin(struct use *use, const char *dir, const struct run_options *options,
                     unsigned nodes)
{
    int r;
    do
        r = use_try(use, dir, options, nodes);
    while (r == -EEXIST);
    return r;
}

/* ---- environment ---- */

__attribute__((format(printf, 1, 2))) static char *text(const char *format, ...)
{
    va_list arguments;
    char *out = NULL;

    va_start(arguments, format);
    if (vasprintf(&out, format, arguments) < 0)
        out = must(NULL);
    va_end(arguments);
    return out;
}

static char **environment(char *const *more, size_t room)
{
    size_t count = 0;

    while (more && more[count])
        count++;
    char **list = must(calloc(count + room + 1, sizeof(*list)));
    for (size_t i = 0; i < count; i++)
        list[i] = must(strdup(more[i]));
    return list;
}

static void append(char **list, char *entry)
{
    while (*list)
        list++;
    *list = entry;
}

static void free_list(char **list)
{
    for (char **e = list; e && *e; e++)
        free(*e);
    free(list);
}

/* The n-th of the processors that this process may use, modulo their number. */
static int nth_cpu(size_t n)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof(set), &set) < 0 || CPU_COUNT(&set) == 0)
        return -1;
    n %= (size_t)CPU_COUNT(&set);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET((size_t)cpu, &set) && n-- == 0)
            return cpu;
    return -1;
}

/* ---- run ---- */

static int run_ranks(const struct cluster *cluster, const struct run_options *options,
                     unsigned nodes, char *const *command)
{
    size_t count = (size_t)nodes * options->per_node;
    struct job job = {.cluster = cluster, .command = command, .count = count, .tag = options->tag};
    uint32_t unique = 0;

    if (getrandom(&unique, sizeof(unique), 0) < 0)
        unique = 0; /* the process id distinguishes simultaneous runs */
    job.processes = must(calloc(count, sizeof(*job.processes)));
    for (size_t rank = 0; rank < count; rank++) {
        struct job_process *process = &job.processes[rank];
        unsigned node = (unsigned)(options->cyclic ? rank % nodes : rank / options->per_node);
        process->node = node;
        process->cpu = options->bind ? nth_cpu(rank) : -1;
        process->environment = environment(options->variables, 6);
        append(process->environment, text("TCA_SOCKET=%s/node%u/tcad.sock", cluster->dir, node));
        append(process->environment, text("TCA_NODE=%u", node));
        append(process->environment, text("TCA_CLUSTER_DIR=%s", cluster->dir));
        append(process->environment, text("TCA_GROUP=run-%d-%08x", (int)getpid(), unique));
        append(process->environment, text("TCA_RANK=%zu", rank));
        append(process->environment, text("TCA_SIZE=%zu", count));
    }
    int code = job_run(&job);
    for (size_t rank = 0; rank < count; rank++)
        free_list(job.processes[rank].environment);
    free(job.processes);
    return code;
}

int run_program(const char *dir, const struct run_options *options, char *const *command)
{
    struct use use;
    unsigned nodes = options->nodes ? options->nodes : NODES_DEFAULT;
    int code, r = job_check_program(command[0]);

    if (r == 0)
        r = use_begin(&use, dir, options, nodes);
    if (r < 0)
        return exit_code(r);
    if (!use.own)
        nodes = options->nodes ? options->nodes : use.cluster.nodes;
    if (nodes > use.cluster.nodes) {
        complain(EINVAL,
                 "the cluster in %s has %u node%s, not %u: use a smaller -n, or take it down first",
                 use.cluster.dir, use.cluster.nodes, use.cluster.nodes == 1 ? "" : "s", nodes);
        code = 2;
    } else {
        code = run_ranks(&use.cluster, options, nodes, command);
    }
    r = use_end(&use);
    return code == 0 && r < 0 ? 1 : code;
}

/* ---- mpirun ---- */

/* Each rank derives its node from the rank that the launcher has set, then runs the program. */
static char *rank_script(unsigned nodes, unsigned ranks)
{
    return text("r=${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-${PMI_RANK:?no rank from mpirun}}}\n"
                "export TCA_NODE=$((r * %u / %u))\nunset TCA_SOCKET\nexec \"$@\"",
                nodes, ranks);
}

static int mpirun_job(const struct cluster *cluster, const struct run_options *options,
                      unsigned nodes, unsigned ranks, char *const *command)
{
    size_t words = 0, arguments = 0;
    char *launcher = must(strdup(options->launcher)), *rest = launcher;
    char *script = rank_script(nodes, ranks), *number = text("%u", ranks);

    while (command[arguments])
        arguments++;
    const char **line = must(calloc(strlen(launcher) + arguments + 8, sizeof(*line)));
    for (char *word; (word = strsep(&rest, " "));)
        if (*word)
            line[words++] = word;
    line[words++] = "-n";
    line[words++] = number;
    line[words++] = "sh";
    line[words++] = "-c";
    line[words++] = script;
    line[words++] = "tca-rank";
    memcpy(line + words, command, arguments * sizeof(*line));

    /* tca-cluster may itself be a rank of an outer launcher, such as a Slurm step: removes that
     * rank. */
    unsetenv("OMPI_COMM_WORLD_RANK");
    unsetenv("PMIX_RANK");
    unsetenv("PMI_RANK");

    struct job_process process = {.cpu = -1, .environment = environment(options->variables, 4)};
    append(process.environment, text("TCA_CLUSTER_DIR=%s", cluster->dir));
    /* By default, Open MPI refuses more ranks than processors, and root. */
    append(process.environment, text("OMPI_MCA_rmaps_base_oversubscribe=1"));
    append(process.environment, text("OMPI_ALLOW_RUN_AS_ROOT=1"));
    append(process.environment, text("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"));
    struct job job = {.cluster = cluster,
                      .command = (char **)line,
                      .name = line[0],
                      .processes = &process,
                      .count = 1};
    int code = job_run(&job);
    free_list(process.environment);
    free(line);
    free(number);
    free(script);
    free(launcher);
    return code;
}

/* Its first word must be a program. */
static int check_launcher(const char *launcher)
{
    char *words = must(strdup(launcher)), *rest = words, *word;
    do
        word = strsep(&rest, " ");
    while (word && !*word);
    int r = word ? job_check_program(word)
                 : complain(EINVAL, "--launcher names no program: write one, such as mpirun.mpich");
    free(words);
    return r;
}

int run_mpirun(const char *dir, const struct run_options *options, char *const *command)
{
    struct use use;
    struct run_options with_boards = *options;
    unsigned wanted = options->nodes ? options->nodes : NODES_DEFAULT;
    unsigned ranks = options->ranks ? options->ranks : wanted * options->per_node;
    unsigned nodes = (ranks + options->per_node - 1) / options->per_node;
    int r = job_check_program(command[0]);

    if (r == 0)
        r = check_launcher(options->launcher);
    /* MPI programs that use tcad are mostly written for PEACH2. */
    if (options->up.boards == BOARDS_UNSAID && nodes <= BOARDS_MAX)
        with_boards.up.boards = BOARDS_YES;
    if (r == 0)
        r = use_begin(&use, dir, &with_boards, nodes);
    if (r < 0)
        return exit_code(r);
    if (nodes > use.cluster.nodes)
        nodes = use.cluster.nodes;
    rails_say(&use.cluster, options);
    int code = mpirun_job(&use.cluster, options, nodes, ranks, command);
    r = use_end(&use);
    return code == 0 && r < 0 ? 1 : code;
}
