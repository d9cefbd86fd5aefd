#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/common/must.h"
#include "tools/tcactl/tcactl.h"

int tcactl_ask(struct tcactl *tcactl, const char *verb, const char *argument, char **ret_text)
{
    int r = 0;

    if (!tcactl->admin)
        r = tca_admin_open(tcactl->socket, tcactl->timeout_ns, &tcactl->admin);
    return r < 0 ? r : tca_admin_ask(tcactl->admin, verb, argument, ret_text);
}

void tcactl_disconnect(struct tcactl *tcactl)
{
    tcactl->admin = tca_admin_close(tcactl->admin);
}

int tcactl_failed(const struct tcactl *tcactl, int error)
{
    const char *text = tca_error_text();

    fprintf(stderr, "tcactl: %s: %s\n", tcactl->verb, *text ? text : tca_strerror(error));
    switch (error) {
    case -ENOENT:
        /* While connecting: no socket. For a request: no such plan or node. */
        return tcactl->admin ? EXIT_FAILED : EXIT_NOT_RUNNING;
    case -ECONNREFUSED:
        return EXIT_NOT_RUNNING;
    case -EACCES:
    case -EPERM:
        return EXIT_PERMISSION;
    case -ETIMEDOUT:
        return EXIT_TIMEOUT;
    default:
        return EXIT_FAILED;
    }
}

json_t *tcactl_parse(const struct tcactl *tcactl, const char *text)
{
    json_error_t error;
    json_t *doc = json_loads(text, 0, &error);

    if (!doc)
        fprintf(stderr, "tcactl: %s: the daemon's reply is not valid JSON: %s\n", tcactl->verb,
                error.text);
    return doc;
}

void tcactl_print_json(const struct tcactl *tcactl, const char *text)
{
    json_t *doc =
        isatty(fileno(tcactl->screen.to)) ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
    char *pretty =
        doc ? json_dumps(doc, JSON_INDENT(2) | JSON_ENSURE_ASCII | JSON_ENCODE_ANY) : NULL;

    if (pretty)
        text = pretty;
    fputs(text, tcactl->screen.to);
    if (*text && text[strlen(text) - 1] != '\n')
        fputc('\n', tcactl->screen.to);
    free(pretty);
    json_decref(doc);
}

int tcactl_print(const struct tcactl *tcactl, json_t *doc, render_function *render)
{
    if (tcactl->json) {
        char *text = must(json_dumps(doc, JSON_COMPACT));
        tcactl_print_json(tcactl, text);
        free(text);
    } else {
        render(doc, &tcactl->screen);
    }
    json_decref(doc);
    return EXIT_OK;
}

int tcactl_show(struct tcactl *tcactl, const char *verb, const char *argument,
                render_function *render, judge_function *judge)
{
    char *text = NULL;
    int r = tcactl_ask(tcactl, verb, argument, &text);

    if (r < 0)
        return tcactl_failed(tcactl, r);
    json_t *doc = tcactl_parse(tcactl, text);
    int code = !doc ? EXIT_FAILED : judge ? judge(tcactl, doc) : EXIT_OK;
    if (tcactl->json)
        tcactl_print_json(tcactl, text);
    else if (doc)
        render(doc, &tcactl->screen);
    json_decref(doc);
    free(text);
    return code == EXIT_OK && r > 0 ? EXIT_DEGRADED : code;
}
