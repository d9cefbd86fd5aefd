#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tcactl/child.h"
#include "tools/tcactl/tcactl.h"

/* A picture by graphviz; FILE "-" is standard output. */
static int draw(const struct tcactl *tcactl, const json_t *doc)
{
    const char *const to_file[] = {"dot", "-Tsvg", "-o", tcactl->svg, NULL};
    const char *const to_stdout[] = {"dot", "-Tsvg", NULL};
    struct child child;
    int r;

    fflush(tcactl->screen.to);
    signal(SIGPIPE, SIG_IGN); /* a dot that cannot run reads nothing */
    bool named = strcmp(tcactl->svg, "-") != 0;
    r = child_start(&child, "w", (char *const *)(named ? to_file : to_stdout));
    if (r < 0) {
        fprintf(stderr, "tcactl: topology: cannot start dot: %s\n", strerror(-r));
        return EXIT_FAILED;
    }
    render_topology_dot(doc, &(struct screen){.to = child.pipe, .utf8 = true});
    r = child_wait(&child);
    if (r == 127)
        fputs("tcactl: topology: --svg needs the program dot of graphviz, which is not in PATH: "
              "install "
              "graphviz, or take --dot to where it is\n",
              stderr);
    else if (r != 0)
        fprintf(stderr, "tcactl: topology: dot failed (%d) and %s is not complete\n", r,
                tcactl->svg);
    return r == 0 ? EXIT_OK : EXIT_FAILED;
}

int run_topology(struct tcactl *tcactl, int count, char **arguments)
{
    char *text = NULL;
    unsigned forms = tcactl->given & (OPTION_DOT | OPTION_SVG);

    if (forms == (OPTION_DOT | OPTION_SVG) || (forms && tcactl->json)) {
        fputs("tcactl: topology: --dot, --svg and --json exclude each other\n", stderr);
        return EXIT_USAGE;
    }
    if (!(forms & OPTION_SVG))
        return tcactl_show(tcactl, "topology", NULL, forms ? render_topology_dot : render_topology);

    int r = tcactl_ask(tcactl, "topology", NULL, &text);
    if (r < 0)
        return tcactl_failed(tcactl, r);
    json_t *doc = tcactl_parse(tcactl, text);
    int code = doc ? draw(tcactl, doc) : EXIT_FAILED;
    if (code == EXIT_OK && r > 0)
        code = EXIT_DEGRADED;
    json_decref(doc);
    free(text);
    return code;
}
