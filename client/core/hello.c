#include "client/core/hello.h"

#include <errno.h>
#include <stdio.h>

#include "client/core/error.h"

static int say_version(const struct control *control, uint32_t version, const char *release)
{
    return error_set(
        -EPROTONOSUPPORT,
        "the tcad at %s (%s) speaks protocol version %u, libtca %s speaks %d: update the older "
        "of the two",
        control->path, release, version, tca_version(), PROTO_VERSION);
}

struct way_costs hello_way_costs(const Tca__Welcome *welcome)
{
    const Tca__WayCosts *told = welcome->way_costs;
    if (!told)
        return way_costs_default;
    const struct way_costs costs = {
        .half_line = told->half_line,
        .ring_line_ns = told->ring_line_ns,
    };
    return way_costs_valid(&costs) ? costs : way_costs_default;
}

int hello_ask(struct control *control, const char *name, uint32_t group_size, uint64_t end_ns,
              struct answer *ret_answer)
{
    char short_name[NAME_MAX_BYTES];
    struct answer answer;
    Tca__Hello body = TCA__HELLO__INIT;
    Tca__Message question = TCA__MESSAGE__INIT;
    snprintf(short_name, sizeof(short_name), "%s", name ? name : program_invocation_short_name);
    body.version = PROTO_VERSION;
    body.admin = group_size == 0;
    body.name = short_name;
    body.group_size = group_size;
    question.body_case = TCA__MESSAGE__BODY_HELLO;
    question.hello = &body;
    int r = control_ask(control, &question, TCA__MESSAGE__BODY_WELCOME, end_ns, &answer);
    if (r < 0)
        return r;
    const Tca__Welcome *welcome = answer.message->welcome;
    if (welcome->version != PROTO_VERSION) {
        r = say_version(control, welcome->version, welcome->daemon_version);
        answer_free(&answer);
        return r;
    }
    *ret_answer = answer;
    return 0;
}
