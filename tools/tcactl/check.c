#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/find_program.h"
#include "tools/common/must.h"
#include "tools/tcactl/child.h"
#include "tools/tcactl/tcactl.h"

/* Runs tcad and prints its output; as JSON: {"ok", "tcad", "messages": [lines]}. */
static int run_tcad(const struct tcactl *tcactl, const char *const *command)
{
    struct child child;
    char line[8192];
    json_t *messages = must(json_array());
    int r = child_start(&child, (char *const *)command);

    if (r < 0) {
        fprintf(stderr, "tcactl: config check: cannot start %s: %s\n", command[0], strerror(-r));
        json_decref(messages);
        return EXIT_FAILED;
    }
    while (fgets(line, sizeof(line), child.pipe)) {
        line[strcspn(line, "\n")] = '\0';
        if (tcactl->json) {
            json_array_append_new(messages, json_string(line));
            continue;
        }
        screen_print(&tcactl->screen, "%s\n", line);
    }
    r = child_wait(&child);
    if (tcactl->json)
        tcactl_print(tcactl,
                     must(json_pack("{s:b, s:s, s:O}", "ok", r == 0, "tcad", command[0], "messages",
                                    messages)),
                     NULL);
    json_decref(messages);
    return r == 0 ? EXIT_OK : EXIT_FAILED;
}

static int check_file(const struct tcactl *tcactl, const char *file, const char *cluster_file)
{
    char tcad[PATH_MAX];
    char *cluster = NULL;
    const char *command[7];
    int n = 0;

    if (find_program("tcad", tcad) < 0) {
        fputs("tcactl: config check: tcad, which checks the file, is neither beside tcactl nor in "
              "PATH: install it or extend PATH\n",
              stderr);
        return EXIT_FAILED;
    }
    command[n++] = tcad;
    command[n++] = "--check";
    if (file) {
        command[n++] = "--config";
        command[n++] = file;
    }
    if (*cluster_file) {
        if (asprintf(&cluster, "node.cluster_file=%s", cluster_file) < 0)
            cluster = must(NULL);
        command[n++] = "-o";
        command[n++] = cluster;
    }
    command[n] = NULL;
    int code = run_tcad(tcactl, command);
    free(cluster);
    return code;
}

/* The daemon knows its file, its user and its command line. */
static int check_daemon(struct tcactl *tcactl, const char *cluster_file)
{
    char *text = NULL, path[PATH_MAX];
    const char *why;
    int r = tcactl_ask(tcactl, "check", cluster_file, &text);

    if (!tcactl->admin && (r == -ENOENT || r == -ECONNREFUSED)) {
        r = tca_socket_path(tcactl->socket, path, sizeof(path), &why);
        if (r < 0)
            return tcactl_failed(tcactl, r);
        if (strcmp(why, "user") == 0 || strcmp(why, "system") == 0)
            return check_file(tcactl, NULL, cluster_file); /* what a new daemon would read */
        fprintf(stderr,
                "tcactl: config check: no tcad answers at %s, so its configuration is unknown: "
                "name the file, as in \"tcactl config check FILE\"\n",
                path);
        return EXIT_NOT_RUNNING;
    }
    if (r < 0)
        return tcactl_failed(tcactl, r);
    json_t *doc = tcactl_parse(tcactl, text);
    const bool good = doc && json_is_true(json_object_get(doc, "ok"));
    if (tcactl->json)
        tcactl_print_json(tcactl, text);
    else if (doc)
        render_check(doc, &tcactl->screen);
    json_decref(doc);
    free(text);
    return good ? EXIT_OK : EXIT_FAILED;
}

int run_check(struct tcactl *tcactl, const char *file)
{
    char path[PATH_MAX];
    const char *cluster_file = tcactl->cluster_file ? tcactl->cluster_file : "";

    if (file && (tcactl->socket || tcactl->node_chosen)) {
        fprintf(stderr, "tcactl: config check: use a file or a daemon, not both: %s or %s\n", file,
                tcactl->socket ? "--socket" : "--node");
        return EXIT_USAGE;
    }
    /* The daemon requires an absolute name. It reports a file that does not exist. */
    if (*cluster_file && realpath(cluster_file, path))
        cluster_file = path;
    return file ? check_file(tcactl, file, cluster_file) : check_daemon(tcactl, cluster_file);
}
