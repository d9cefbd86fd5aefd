#include "daemon/control/admin.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/worker.h"
#include "daemon/control/explain.h"
#include "daemon/control/inspect.h"
#include "daemon/control/metrics.h"
#include "daemon/control/reload.h"
#include "daemon/control/rows.h"
#include "daemon/control/server.h"
#include "daemon/sessions/client.h"
#include "daemon/tcad.h"
#include "proto/frame.h"

enum { LATER_MAX = 16 }; /* pending replies of one client */

struct admin_reply {
    struct server *server;
    uint64_t client;
    uint32_t tag;
};

static void send_text(struct client *client, uint32_t tag, char *text, bool degraded)
{
    if (!text) {
        client_failf(client, tag, -ENOMEM, "out of memory for the reply");
        return;
    }
    Tca__Document document = BODY_OF(document, .text = text, .degraded = degraded);
    const Tca__Message message = MESSAGE_OF(DOCUMENT, document, &document);
    client_send(client, tag, &message, NULL, 0);
    free(text);
}

static void send_document(struct client *client, uint32_t tag, json_t *document, bool degraded)
{
    send_text(client, tag, document ? json_dumps(document, JSON_COMPACT) : NULL, degraded);
    json_decref(document);
}

static struct admin_reply *reply_later(struct client *client, uint32_t tag)
{
    if (client->later >= LATER_MAX) {
        client_failf(client, tag, -EBUSY,
                     "this connection has %u pending requests, the limit: wait for some",
                     client->later);
        return NULL;
    }
    struct admin_reply *reply = malloc(sizeof(*reply));
    if (!reply) {
        client_failf(client, tag, -ENOMEM, "out of memory for the reply");
        return NULL;
    }
    *reply = (struct admin_reply){client->server, client->id, tag};
    client->later++;
    return reply;
}

/* NULL: the client has gone. */
static struct client *answered(struct admin_reply *reply)
{
    struct client *client = server_client(reply->server, reply->client);
    if (client)
        client->later--;
    return client;
}

void admin_reply_document(struct admin_reply *reply, json_t *document, bool degraded)
{
    struct client *client = answered(reply);
    if (client)
        send_document(client, reply->tag, document, degraded);
    else
        json_decref(document);
    free(reply);
}

void admin_reply_fail(struct admin_reply *reply, int error, const char *format, ...)
{
    struct client *client = answered(reply);
    if (client) {
        va_list arguments;
        va_start(arguments, format);
        client_fail(client, reply->tag, error, format, arguments);
        va_end(arguments);
    }
    free(reply);
}

/* ---- long documents ---- */

struct packing {
    struct admin_reply *reply;
    json_t *document;
    int memfd;
    size_t bytes;
};

/* On the worker. */
static void pack(void *context)
{
    struct packing *packing = context;
    Tca__Document document = TCA__DOCUMENT__INIT;
    char *text = json_dumps(packing->document, JSON_COMPACT);
    json_decref(packing->document);
    document.text = text;
    const Tca__Message message = MESSAGE_OF(DOCUMENT, document, &document);
    packing->memfd = text ? frame_pack(&message.base, &packing->bytes) : -ENOMEM;
    free(text);
}

static void packed(void *context)
{
    struct packing *packing = context;
    struct admin_reply *reply = packing->reply;
    if (packing->memfd < 0) {
        admin_reply_fail(reply, packing->memfd, "the reply could not be packed: %s",
                         strerrordesc_np(-packing->memfd));
        free(packing);
        return;
    }
    struct client *client = answered(reply);
    if (client)
        client_send_memfd(client, reply->tag, packing->memfd, packing->bytes, NULL, 0);
    close(packing->memfd);
    free(reply);
    free(packing);
}

static void not_packed(void *context)
{
    struct packing *packing = context;
    json_decref(packing->document);
    admin_reply_fail(packing->reply, -ECANCELED, "tcad is ending");
    free(packing);
}

void admin_reply_packed(struct tcad *tcad, struct admin_reply *reply, json_t *document)
{
    const struct client *client = server_client(reply->server, reply->client);
    struct packing *packing = malloc(sizeof(*packing));
    if (packing)
        *packing = (struct packing){.reply = reply, .document = document};
    if (packing && worker_submit(tcad->worker, client ? client->uid : 0, pack, packed, not_packed,
                                 packing) == 0)
        return;
    free(packing);
    json_decref(document);
    admin_reply_fail(reply, -ENOMEM, "out of memory for the reply");
}

static json_t *drain(struct tcad *tcad, const char *argument)
{
    if (strcmp(argument, "on") == 0)
        tcad->draining = true;
    else if (strcmp(argument, "off") == 0)
        tcad->draining = false;
    return json_pack("{s:s, s:I}", "state", tcad->draining ? "draining" : "ready", "sessions",
                     (json_int_t)tcad->session_count);
}

/* Handles the verbs that change something, which only root and the daemon's own user may use.
 * Returns whether the verb was one of them. */
static bool order(struct client *client, uint32_t tag, const char *verb, const char *argument)
{
    struct tcad *tcad = client->tcad;
    bool is_order = strcmp(verb, "reload") == 0 || strcmp(verb, "calibrate") == 0 ||
                    strcmp(verb, "drain") == 0 || strcmp(verb, "check") == 0;
    if (!is_order)
        return false;
    if (client->uid != 0 && client->uid != geteuid()) {
        client_failf(client, tag, -EACCES,
                     "%s: permitted only for root and the daemon's own user (%u), not for user %u",
                     verb, geteuid(), client->uid);
        return true;
    }
    log_info(client_fields(client).text, "%s%s%s, requested by pid %d, user %u", verb,
             *argument ? " " : "", argument, client->pid, client->uid);
    if (strcmp(verb, "drain") == 0) {
        send_document(client, tag, drain(tcad, argument), false);
        return true;
    }
    if (strcmp(verb, "check") == 0) {
        send_document(client, tag, reload_check(tcad, argument), false);
        return true;
    }
    struct admin_reply *reply = reply_later(client, tag);
    if (!reply)
        return true;
    if (strcmp(verb, "reload") == 0)
        admin_reload(tcad, reply);
    else
        admin_calibrate(tcad, reply);
    return true;
}

static void metrics_text(struct client *client, uint32_t tag)
{
    json_t *stats = inspect_stats(client->tcad);
    send_text(client, tag, stats ? metrics_render(stats) : NULL, false);
    json_decref(stats);
}

static void show_nodes(struct client *client, uint32_t tag, const char *names)
{
    char text[320];
    json_t *document = inspect_nodes(client->tcad, names, text, sizeof(text));
    if (!text[0]) {
        send_document(client, tag, document, false);
        return;
    }
    json_decref(document);
    client_failf(client, tag, -EINVAL, "%s", text);
}

static void show_plan(struct client *client, uint32_t tag, const char *id)
{
    const char *why;
    const struct plan *plan = inspect_find_plan(client->tcad, client->uid, id, &why);
    struct admin_reply *reply = plan ? reply_later(client, tag) : NULL;
    if (reply)
        explain_reply(client->tcad, reply, plan);
    else if (!plan)
        client_failf(client, tag, -ENOENT, "plan \"%s\": %s", id, why);
}

void admin_request(struct client *client, uint32_t tag, const Tca__Admin *admin)
{
    static const struct {
        const char *verb;
        json_t *(*make)(struct tcad *tcad);
    } documents[] = {
        {"stats", inspect_stats},
        {"config", inspect_config},
    };
    struct tcad *tcad = client->tcad;
    const char *verb = admin->verb;

    for (size_t i = 0; i < sizeof(documents) / sizeof(documents[0]); i++) {
        if (strcmp(verb, documents[i].verb) == 0) {
            send_document(client, tag, documents[i].make(tcad), false);
            return;
        }
    }
    if (strcmp(verb, "nodes") == 0) {
        show_nodes(client, tag, admin->argument);
    } else if (rows_has(verb)) {
        struct admin_reply *reply = reply_later(client, tag);
        if (reply)
            rows_reply(tcad, reply, verb, client->uid);
    } else if (strcmp(verb, "status") == 0 && strcmp(admin->argument, "strict") == 0) {
        struct admin_reply *reply = reply_later(client, tag);
        if (reply)
            admin_ask_all(tcad, reply);
    } else if (strcmp(verb, "status") == 0) {
        bool degraded = false;
        json_t *document = inspect_status(tcad, &degraded);
        send_document(client, tag, document, degraded);
    } else if (strcmp(verb, "plan") == 0) {
        show_plan(client, tag, admin->argument);
    } else if (strcmp(verb, "metrics") == 0) {
        metrics_text(client, tag);
    } else if (strcmp(verb, "ping") == 0) {
        struct admin_reply *reply = reply_later(client, tag);
        if (reply)
            admin_ping(tcad, reply, admin->argument);
    } else if (strcmp(verb, "why") == 0) {
        struct admin_reply *reply = reply_later(client, tag);
        if (reply)
            admin_why(tcad, reply, admin->argument);
    } else if (strcmp(verb, "topology") == 0) {
        struct admin_reply *reply = reply_later(client, tag);
        if (reply)
            admin_topology(tcad, reply);
    } else if (!order(client, tag, verb, admin->argument)) {
        client_failf(client, tag, -EINVAL, "tcad " TCAD_VERSION " does not know the request \"%s\"",
                     verb);
    }
}
