#include <stdlib.h>
#include <string.h>

#include "tools/common/must.h"
#include "tools/tcactl/tcactl.h"

/* {"path", "entries": [{"key", "bytes", "blocks", "distance", "mode", "stream", "piece_bytes",
 * "rail", "seat", "ns", "load"}], "disturbed": their number} */
static json_t *wisdom_document(const char *path, const struct tca_wisdom *entries, size_t count)
{
    json_t *list = must(json_array());
    json_int_t disturbed = 0;

    for (const struct tca_wisdom *w = entries; w < entries + count; w++) {
        disturbed += w->disturbed;
        json_array_append_new(
            list,
            must(json_pack("{s:s, s:I, s:I, s:I, s:s?, s:b, s:I, s:s?, s:s?, s:f, s:f}", "key",
                           w->key, "bytes", (json_int_t)w->bytes, "blocks", (json_int_t)w->blocks,
                           "distance", (json_int_t)w->distance, "mode",
                           w->rail[0] ? NULL : tca_copy_method_name(w->copy_method), "stream",
                           (int)w->stream, "piece_bytes", (json_int_t)w->piece_bytes, "rail",
                           w->rail[0] ? w->rail : NULL, "seat",
                           w->seat ? tca_seat_name(w->seat) : NULL, "ns", w->ns, "load", w->load)));
    }
    return must(
        json_pack("{s:s, s:o, s:I}", "path", path, "entries", list, "disturbed", disturbed));
}

static int list_wisdom(struct tcactl *tcactl)
{
    char *path;
    struct tca_wisdom *entries;
    size_t count;
    int r = tca_wisdom_read(&path, &entries, &count);

    if (r < 0)
        return tcactl_failed(tcactl, r);
    int code = tcactl_print(tcactl, wisdom_document(path, entries, count), render_wisdom);
    free(entries);
    free(path);
    return code;
}

int run_wisdom(struct tcactl *tcactl, int count, char **arguments)
{
    if (count == 0)
        return list_wisdom(tcactl);
    if (strncmp(arguments[0], "clear", strlen(arguments[0])) != 0) {
        fprintf(stderr, "tcactl: wisdom: unknown argument \"%s\": only \"clear\" is possible\n",
                arguments[0]);
        return EXIT_USAGE;
    }
    int r = tca_wisdom_clear();
    return r < 0 ? tcactl_failed(tcactl, r) : EXIT_OK;
}
