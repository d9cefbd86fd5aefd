#include "client/core/hello.h"

#include <errno.h>
#include <stdio.h>

#include "client/core/error.h"

static int set_version_error(const struct control *control, uint32_t version, const char *release)
{
    return error_set(
        -EPROTONOSUPPORT,
        "the tcad at %s (%s) speaks protocol version %u, libtca %s speaks %d: update the older "
        "of the two",
        control->path, release, version, tca_version(), PROTO_VERSION);
}

int hello_ask(struct control *control, const char *name, uint32_t group_size, uint64_t end_ns,
              struct reply *ret_reply)
{
    char short_name[NAME_MAX_BYTES];
    struct reply reply;
    Tca__Hello body = TCA__HELLO__INIT;
    const Tca__Message request = REQUEST(HELLO, hello, &body);
    snprintf(short_name, sizeof(short_name), "%s", name ? name : program_invocation_short_name);
    body.version = PROTO_VERSION;
    body.admin = group_size == 0;
    body.name = short_name;
    body.group_size = group_size;
    int r = control_request(control, &request, TCA__MESSAGE__BODY_WELCOME, end_ns, &reply);
    if (r < 0)
        return r;
    const Tca__Welcome *welcome = reply.message->welcome;
    if (welcome->version != PROTO_VERSION) {
        r = set_version_error(control, welcome->version, welcome->daemon_version);
        reply_free(&reply);
        return r;
    }
    *ret_reply = reply;
    return 0;
}
