#include <stdlib.h>

#include "tools/common/must.h"
#include "tools/tcactl/tcactl.h"

static void add_unknown(void *list, const char *name, const char *similar)
{
    json_array_append_new(list, json_pack("{s:s, s:s?}", "name", name, "similar", similar));
}

/* {"variables": [{"name", "value" or null, "default", "meaning"}], "unknown": [{"name", "similar"
 * or null}], "socket", "why"} */
static json_t *env_document(const char *socket, const char *why)
{
    json_t *list = must(json_array());

    for (const struct tca_variable *v = tca_variables(); v->name; v++)
        json_array_append_new(list, json_pack("{s:s, s:s?, s:s?, s:s?}", "name", v->name, "value",
                                              getenv(v->name), "default", v->default_value,
                                              "meaning", v->meaning));
    json_t *unknown = must(json_array());
    tca_variables_unknown(add_unknown, unknown);
    return must(json_pack("{s:o, s:o, s:s, s:s}", "variables", list, "unknown", unknown, "socket",
                          socket, "why", why));
}

int run_env(struct tcactl *tcactl, int count, char **arguments)
{
    char path[4096];
    const char *why = NULL;
    int r = tca_socket_path(tcactl->socket, path, sizeof(path), &why);

    if (r < 0)
        return tcactl_failed(tcactl, r);
    return tcactl_print(tcactl, env_document(path, why), render_env);
}
