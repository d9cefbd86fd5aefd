#include "client/include/tca-admin.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/core/clock.h"
#include "client/core/control.h"
#include "client/core/environment.h"
#include "client/core/error.h"
#include "client/core/hello.h"

struct tca_admin {
    struct control control;
    int64_t timeout_ns;
};

int tca_admin_open(const char *socket, int64_t timeout_ns, struct tca_admin **ret_admin)
{
    struct settings settings;
    struct reply reply;
    int r = environment_settings(&settings);
    if (r < 0)
        return r;
    if (timeout_ns == TCA_DEFAULT)
        timeout_ns = settings.timeout_ns;
    if (timeout_ns < TCA_FOREVER)
        return error_set(-EINVAL, "time-out %lld ns", (long long)timeout_ns);
    struct tca_admin *admin = calloc(1, sizeof(*admin));
    if (!admin)
        return error_static(-ENOMEM, "out of memory");
    admin->timeout_ns = timeout_ns;
    uint64_t end_ns = clock_end(timeout_ns);
    r = control_open(&admin->control, socket, end_ns, NULL, NULL);
    if (r == 0)
        r = hello_ask(&admin->control, NULL, 0, end_ns, &reply);
    if (r < 0) {
        tca_admin_close(admin);
        return r;
    }
    reply_free(&reply);
    *ret_admin = admin;
    return 0;
}

struct tca_admin *tca_admin_close(struct tca_admin *admin)
{
    if (admin)
        control_close(&admin->control);
    free(admin);
    return NULL;
}

int tca_admin_ask(struct tca_admin *admin, const char *verb, const char *argument, char **ret_text)
{
    Tca__Admin body = TCA__ADMIN__INIT;
    const Tca__Message request = REQUEST(ADMIN, admin, &body);
    struct reply reply;
    if (!verb)
        return error_static(-EINVAL, "the verb is NULL");
    body.verb = (char *)verb;
    if (argument)
        body.argument = (char *)argument;
    int r = control_request(&admin->control, &request, TCA__MESSAGE__BODY_DOCUMENT,
                            clock_end(admin->timeout_ns), &reply);
    if (r < 0)
        return r;
    char *text = strdup(reply.message->document->text);
    r = reply.message->document->degraded ? 1 : 0;
    reply_free(&reply);
    if (!text)
        return error_static(-ENOMEM, "out of memory");
    *ret_text = text;
    return r;
}
