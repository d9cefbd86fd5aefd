#include "tools/tca-cluster/show.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/include/tca-admin.h"
#include "tools/common/must.h"
#include "tools/tca-cluster/boards.h"
#include "tools/tcactl/doc.h"
#include "tools/tcactl/table.h"
#include "tools/tcactl/units.h"

enum { EXIT_NOT_RUNNING = 3, EXIT_DEGRADED = 5 };

/* The status document of a node's daemon; NULL: the daemon does not respond. */
static json_t *ask(const char *socket)
{
    struct tca_admin *admin = NULL;
    char *text = NULL;
    json_t *doc = NULL;

    if (tca_admin_open(socket, INT64_C(1000000000), &admin) < 0)
        return NULL;
    if (tca_admin_ask(admin, "status", NULL, &text) >= 0)
        doc = json_loads(text, 0, NULL);
    free(text);
    tca_admin_close(admin);
    return doc;
}

/* {"pid", "state", "socket"} of a node's board; null: the cluster has none. */
static json_t *board_document(const struct cluster *cluster, unsigned node)
{
    struct process process = boards_process(cluster, node);
    enum process_state state = process_state(&process);

    if (!cluster->boards)
        return json_null();
    return must(json_pack("{s:i, s:s, s:s}", "pid", (int)process.pid, "state",
                          state == PROCESS_GONE      ? "ended"
                          : state == PROCESS_STOPPED ? "stopped"
                                                     : "running",
                          "socket", cluster_node_path(cluster->dir, node, "peach2.sock").text));
}

/* {"node", "pid", "state", "socket", "sessions", "uptime_s", "connected", "board", "log"}; unknown
 * values are null. */
static json_t *node_document(const struct cluster *cluster, unsigned node)
{
    struct process process = cluster_daemon(cluster, node);
    struct path socket = cluster_node_path(cluster->dir, node, "tcad.sock");
    struct path log = cluster_node_path(cluster->dir, node, "tcad.log");
    enum process_state state = process_state(&process);
    json_t *status = state == PROCESS_RUNNING ? ask(socket.text) : NULL;
    const char *word = state == PROCESS_GONE      ? "ended"
                       : state == PROCESS_STOPPED ? "stopped"
                       : status                   ? doc_text(status, "daemon.state")
                                                  : "silent";

    json_t *doc =
        must(json_pack("{s:i, s:i, s:s, s:s, s:O?, s:O?, s:O?, s:o, s:s}", "node", (int)node, "pid",
                       (int)process.pid, "state", word, "socket", socket.text, "sessions",
                       doc_get(status, "sessions"), "uptime_s", doc_get(status, "daemon.uptime_s"),
                       "connected", doc_get(status, "cluster.connected"), "board",
                       board_document(cluster, node), "log", log.text));
    json_decref(status);
    return doc;
}

static void print_table(const struct cluster *cluster, const json_t *nodes)
{
    static const char *const titles[] = {">NODE",     ">PID",  "STATE", ">UPTIME", ">CONNECTED",
                                         ">SESSIONS", "BOARD", "LOG",   NULL};
    struct screen screen;
    struct table table;

    screen_init(&screen, stdout, false);
    printf("%u node%s in %s\nsecurity %s, network %s", cluster->nodes,
           cluster->nodes == 1 ? "" : "s", cluster->dir, cluster->plain ? "plain" : "tls",
           cluster->private_network ? "private" : "of the host");
    if (cluster->boards)
        printf(", boards cabled as %s", boards_shape(cluster).text);
    if (process_state(&cluster->owner) != PROCESS_GONE)
        printf(", up for the run with pid %d only", (int)cluster->owner.pid);
    putchar('\n');
    table_init(&table, titles);
    for (size_t i = 0; i < json_array_size(nodes); i++) {
        const json_t *node = json_array_get(nodes, i);
        bool known = doc_is_number(node, "uptime_s");
        table_add(&table, "%lld", doc_integer(node, "node"));
        table_add(&table, "%lld", doc_integer(node, "pid"));
        table_add_state(&table, doc_text(node, "state"));
        table_add(&table, "%s", known ? units_age(doc_number(node, "uptime_s")).text : "-");
        if (known) {
            table_add(&table, "%lld", doc_integer(node, "connected"));
            table_add(&table, "%lld", doc_integer(node, "sessions"));
        } else {
            table_add(&table, "-");
            table_add(&table, "-");
        }
        if (cluster->boards)
            table_add_state(&table, doc_text(node, "board.state"));
        else
            table_add(&table, "-");
        table_add(&table, "%s", doc_text(node, "log"));
    }
    table_print(&table, &screen, 0, "no nodes");
    table_deinit(&table);
}

int show_status(const struct cluster *cluster, bool json)
{
    json_t *nodes = must(json_array());
    unsigned ready = 0, ended = 0, bad_boards = 0;

    for (unsigned node = 0; node < cluster->nodes; node++) {
        json_t *doc = node_document(cluster, node);
        ready += strcmp(doc_text(doc, "state"), "ready") == 0;
        ended += strcmp(doc_text(doc, "state"), "ended") == 0;
        bad_boards += cluster->boards && strcmp(doc_text(doc, "board.state"), "running") != 0;
        json_array_append_new(nodes, doc);
    }
    if (json) {
        json_t *doc = must(
            json_pack("{s:s, s:s, s:s, s:o, s:O}", "dir", cluster->dir, "security",
                      cluster->plain ? "plain" : "tls", "network",
                      cluster->private_network ? "private" : "host", "boards",
                      cluster->boards ? must(json_string(boards_shape(cluster).text)) : json_null(),
                      "nodes", nodes));
        json_dumpf(doc, stdout, JSON_INDENT(2));
        putchar('\n');
        json_decref(doc);
    } else {
        print_table(cluster, nodes);
    }
    json_decref(nodes);
    return ready == cluster->nodes && bad_boards == 0 ? 0
           : ended == cluster->nodes                  ? EXIT_NOT_RUNNING
                                                      : EXIT_DEGRADED;
}

/* In single quotes for a shell. */
static void quoted(const char *text)
{
    putchar('\'');
    for (; *text; text++)
        if (*text == '\'')
            fputs("'\\''", stdout);
        else
            putchar(*text);
    fputs("'\n", stdout);
}

void show_environment(const struct cluster *cluster, unsigned node)
{
    printf("export TCA_SOCKET=");
    quoted(cluster_node_path(cluster->dir, node, "tcad.sock").text);
    printf("export TCA_NODE=%u\nexport TCA_CLUSTER_DIR=", node);
    quoted(cluster->dir);
}
