#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tcactl/tcactl.h"

/* FILE "-" is standard output, which main() flushes. */
static int draw(const struct tcactl *tcactl, const json_t *doc)
{
    bool named = strcmp(tcactl->svg, "-") != 0;
    struct screen screen = {.to = named ? fopen(tcactl->svg, "we") : tcactl->screen.to};
    bool good = screen.to;

    if (good) {
        render_topology_svg(doc, &screen);
        good = !ferror(screen.to);
        if (named)
            good = fclose(screen.to) == 0 && good;
    }
    if (!good)
        fprintf(stderr, "tcactl: topology: cannot write %s: %s\n", tcactl->svg, strerror(errno));
    return good ? EXIT_OK : EXIT_FAILED;
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
        return tcactl_show(tcactl, "topology", NULL, forms ? render_topology_dot : render_topology,
                           NULL);

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
