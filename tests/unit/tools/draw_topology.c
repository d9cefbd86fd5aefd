/* draw_topology: a document on standard input, its picture on standard output. For
 * check-pictures. */
#include <stdio.h>

#include "tools/tcactl/render.h"

int main(void)
{
    json_error_t error;
    json_t *doc = json_loadf(stdin, 0, &error);

    if (!doc) {
        fprintf(stderr, "line %d: %s\n", error.line, error.text);
        return 2;
    }
    render_topology_svg(doc, &(struct screen){.to = stdout, .utf8 = true});
    json_decref(doc);
    return 0;
}
