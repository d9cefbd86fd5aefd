#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/find_program.h"
#include "tools/common/must.h"
#include "tools/tcactl/child.h"
#include "tools/tcactl/tcactl.h"

/* Runs it and says what it said; the JSON form is {"ok", "tcad", "messages": [lines]}. */
static int check(const struct tcactl *tcactl, const char *const *command)
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
        screen_text(&tcactl->screen, line);
        fputc('\n', tcactl->screen.to);
    }
    r = child_wait(&child);
    if (tcactl->json) {
        json_t *doc = must(
            json_pack("{s:b, s:s, s:O}", "ok", r == 0, "tcad", command[0], "messages", messages));
        char *text = must(json_dumps(doc, JSON_COMPACT));
        tcactl_print_json(tcactl, text);
        free(text);
        json_decref(doc);
    }
    json_decref(messages);
    return r == 0 ? EXIT_OK : EXIT_FAILED;
}

int run_check(struct tcactl *tcactl, const char *file)
{
    char tcad[PATH_MAX];
    char *cluster = NULL;
    const char *command[7];
    int n = 0;

    if (find_program("tcad", tcad) < 0) {
        fputs("tcactl: config check: tcad, which does the checking, is neither beside tcactl nor "
              "in PATH: "
              "install it or extend PATH\n",
              stderr);
        return EXIT_FAILED;
    }
    command[n++] = tcad;
    command[n++] = "--check";
    if (file) {
        command[n++] = "--config";
        command[n++] = file;
    }
    if (tcactl->cluster_file) {
        char path[PATH_MAX];
        /* The daemon wants absolute names, people do not. What does not exist is its business to
         * report. */
        const char *absolute = realpath(tcactl->cluster_file, path);
        if (asprintf(&cluster, "node.cluster_file=%s", absolute ? absolute : tcactl->cluster_file) <
            0)
            cluster = must(NULL);
        command[n++] = "-o";
        command[n++] = cluster;
    }
    command[n] = NULL;
    int code = check(tcactl, command);
    free(cluster);
    return code;
}
