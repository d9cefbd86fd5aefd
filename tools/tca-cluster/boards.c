#include "tools/tca-cluster/boards.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "tools/common/find_program.h"
#include "tools/tca-cluster/say.h"
#include "tools/tca-cluster/spawn.h"

enum { REACH_MS = 60000, CABLES_MAX = 3 };

/* A sub-cluster: consecutive nodes, and the number of rings that cable their boards. */
struct fabric {
    unsigned first, nodes, rings;
};

static struct fabric fabric_of(unsigned nodes, unsigned subclusters, unsigned rings,
                               unsigned subcluster)
{
    unsigned first = (unsigned)(((uint64_t)subcluster * nodes + subclusters - 1) / subclusters);
    unsigned end = (unsigned)(((uint64_t)(subcluster + 1) * nodes + subclusters - 1) / subclusters);
    struct fabric fabric = {.first = first, .nodes = end - first, .rings = rings};

    if (rings == 0) /* as tcad takes it, see rails.peach2_rings in tcad.conf(5) */
        fabric.rings = fabric.nodes == 8 || fabric.nodes == 16 ? 2 : 1;
    return fabric;
}

static struct fabric fabric_of_node(const struct cluster *cluster, unsigned node)
{
    return fabric_of(cluster->nodes, cluster->subclusters, cluster->rings,
                     (unsigned)((uint64_t)node * cluster->subclusters / cluster->nodes));
}

int boards_check(unsigned nodes, unsigned subclusters, unsigned rings)
{
    for (unsigned i = 0; i < subclusters; i++) {
        struct fabric fabric = fabric_of(nodes, subclusters, rings, i);
        if (fabric.nodes > BOARDS_MAX)
            return complain(EINVAL,
                            "%u nodes in a sub-cluster: boards support at most %d; use fewer "
                            "nodes, or more --subclusters",
                            fabric.nodes, BOARDS_MAX);
        if (fabric.rings == 2 && fabric.nodes % 4 != 0)
            return complain(EINVAL,
                            "%u nodes in a sub-cluster: two rings need 4, 8, 12 or 16; use one of "
                            "these, or --rings 1",
                            fabric.nodes);
    }
    return 0;
}

struct path boards_shape(const struct cluster *cluster)
{
    struct path shape = {""}, before = {""};

    for (unsigned i = 0; i < cluster->subclusters; i++) {
        struct fabric fabric = fabric_of(cluster->nodes, cluster->subclusters, cluster->rings, i);
        struct path one;
        if (fabric.rings == 2)
            snprintf(one.text, sizeof(one.text), "2 x %u", fabric.nodes / 2);
        else
            snprintf(one.text, sizeof(one.text), "ring of %u", fabric.nodes);
        size_t used = strlen(shape.text);
        if (strcmp(one.text, before.text) != 0) /* lists equal neighbours once */
            snprintf(shape.text + used, sizeof(shape.text) - used, "%s%.40s", used ? ", " : "",
                     one.text);
        before = one;
    }
    return shape;
}

/* ---- cables ---- */

/* The node at a position of a sub-cluster's ring. Two rings are folded, which keeps all cables
 * short: up one side and down the other, with rungs between the nodes of a pair. */
static unsigned node_in_column(const struct fabric *fabric, unsigned ring, unsigned column)
{
    unsigned columns = fabric->nodes / fabric->rings;

    if (fabric->rings == 1)
        return fabric->first + column;
    unsigned pair = column < columns / 2 ? column : columns - 1 - (column - columns / 2);
    return fabric->first + 2 * pair + ring;
}

/* The cables specified at a node's board: E to its neighbour's W, and, at the first of a pair, S to
 * S. */
static unsigned cables_of(const struct cluster *cluster, unsigned node,
                          char cables[CABLES_MAX][PATH_MAX])
{
    struct fabric fabric = fabric_of_node(cluster, node);
    unsigned ring = fabric.rings == 2 ? (node - fabric.first) % 2 : 0, count = 0;
    unsigned columns = fabric.nodes / fabric.rings;

    for (unsigned column = 0; columns > 1 && column < columns; column++)
        if (node_in_column(&fabric, ring, column) == node) {
            unsigned next = node_in_column(&fabric, ring, (column + 1) % columns);
            snprintf(cables[count++], PATH_MAX, "E=%.*s:W", PATH_MAX - 8,
                     cluster_node_path(cluster->dir, next, "peach2.sock").text);
        }
    if (fabric.rings == 2 && ring == 0)
        snprintf(cables[count++], PATH_MAX, "S=%.*s:S", PATH_MAX - 8,
                 cluster_node_path(cluster->dir, node + 1, "peach2.sock").text);
    return count;
}

/* ---- processes ---- */

static int spawn(const struct cluster *cluster, unsigned node, const char *program)
{
    struct path socket = cluster_node_path(cluster->dir, node, "peach2.sock");
    char cables[CABLES_MAX][PATH_MAX], number[16];
    unsigned count = cables_of(cluster, node, cables), n = 5;
    const char *command[6 + 2 * CABLES_MAX] = {program, "--socket", socket.text, "--node", number};

    snprintf(number, sizeof(number), "%u", node - fabric_of_node(cluster, node).first);
    for (unsigned i = 0; i < count; i++) {
        command[n++] = "--cable";
        command[n++] = cables[i];
    }
    pid_t pid = spawn_board(cluster, node, command);
    return pid < 0 ? pid : 0;
}

static bool reachable(const char *path)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    memcpy(name.sun_path, path, strnlen(path, sizeof(name.sun_path) - 1));
    bool good = fd >= 0 && connect(fd, (struct sockaddr *)&name, sizeof(name)) == 0;
    if (fd >= 0)
        close(fd);
    return good;
}

static int wait_reachable(const struct cluster *cluster, unsigned node)
{
    struct path socket = cluster_node_path(cluster->dir, node, "peach2.sock");
    const struct timespec nap = {.tv_nsec = 5 * 1000000};

    for (int waited_ms = 0; !reachable(socket.text); waited_ms += 5) {
        struct process process = boards_process(cluster, node);
        if (process_state(&process) == PROCESS_GONE)
            return complain(ECHILD, "tca-peach2 of node%u ended while starting: see %s", node,
                            cluster_node_path(cluster->dir, node, "peach2.log").text);
        if (waited_ms >= REACH_MS)
            return complain(ETIMEDOUT, "the board of node%u cannot be reached at %s", node,
                            socket.text);
        nanosleep(&nap, NULL);
    }
    return 0;
}

static int find_board_program(char ret_program[static PATH_MAX])
{
    if (find_program("tca-peach2", ret_program) == 0)
        return 0;
    return complain(ENOENT, "tca-peach2 is neither beside tca-cluster nor in PATH: install it, "
                            "extend PATH, or use --no-boards");
}

int boards_start_one(const struct cluster *cluster, unsigned node)
{
    char program[PATH_MAX];
    int r = find_board_program(program);

    if (r == 0)
        r = spawn(cluster, node, program);
    return r < 0 ? r : wait_reachable(cluster, node);
}

int boards_start(const struct cluster *cluster)
{
    char program[PATH_MAX];
    int r = find_board_program(program);

    for (unsigned node = 0; r == 0 && node < cluster->nodes; node++)
        r = spawn(cluster, node, program);
    for (unsigned node = 0; r == 0 && node < cluster->nodes; node++)
        r = wait_reachable(cluster, node);
    return r;
}

struct process boards_process(const struct cluster *cluster, unsigned node)
{
    struct process process = {0};

    if (cluster->boards)
        process_load(cluster_node_path(cluster->dir, node, "peach2.pid").text, &process);
    return process;
}
