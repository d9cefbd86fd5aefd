/* Requests of offload processors: checks them and their limits. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/offload/offload_internal.h"
#include "daemon/peers/peer.h"
#include "daemon/sessions/region.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"

enum { SEGMENT_FDS = 3 }; /* the memory, its eventfd, and a device */

int offload_new(struct tcad *tcad, struct offload **ret_offload)
{
    struct offload *offload = calloc(1, sizeof(*offload));
    if (!offload)
        return -ENOMEM;
    offload->tcad = tcad;
    *ret_offload = offload;
    return 0;
}

void offload_free(struct offload *offload)
{
    if (!offload)
        return;
    table_deinit(&offload->processors);
    free(offload);
}

static struct command *command_new(struct session *session, uint32_t tag, int what)
{
    struct command *command = calloc(1, sizeof(*command));
    if (!command) {
        session_fail(session, tag, -ENOMEM, "out of memory for a command of an offload processor");
        return NULL;
    }
    command->session = session->id;
    command->tag = tag;
    command->replies = true;
    command->what = what;
    return command;
}

/* ---- opening ---- */

/* Charges the processor's memory, which counts as memory of regions. */
static int charge_segment(struct session *session, struct processor *processor, char *text,
                          size_t text_bytes)
{
    int r = charge_take(session->tcad, &processor->charge, session->uid, USER_OFFLOAD,
                        sizeof(*processor) + sizeof(struct port), "an offload processor", text,
                        text_bytes);
    if (r < 0)
        return r;
    if (!region_may_have(session, processor->segment_bytes, text, text_bytes)) {
        charge_drop(&processor->charge);
        return -EDQUOT;
    }
    charge_memory(&processor->charge, processor->segment_bytes);
    charge_descriptors(&processor->charge, SEGMENT_FDS);
    session->region_bytes += processor->segment_bytes;
    return 0;
}

static void open_processor(struct session *session, uint32_t tag, uint64_t bytes)
{
    struct tcad *tcad = session->tcad;
    char text[512];
    if (!tcad->conf->dcfa.device) {
        session_fail(session, tag, -ENODEV,
                     "node %s accepts no offload processors: dcfa.device is none",
                     tcad->conf->node.name);
        return;
    }
    if (table_find(&tcad->offload->processors, session->id)) {
        session_fail(session, tag, -EEXIST, "session %" PRIu64 " has an offload processor already",
                     session->id);
        return;
    }
    const uint64_t rounded = (bytes + DCFA_PAGE_BYTES - 1) / DCFA_PAGE_BYTES * DCFA_PAGE_BYTES;
    if (bytes == 0 || rounded > tcad->conf->memory.region_bytes) {
        session_fail(session, tag, -EINVAL,
                     "an offload processor with %" PRIu64
                     " bytes of memory: it must have from 1 to "
                     "%" PRIu64 " (memory.region_bytes)",
                     bytes, tcad->conf->memory.region_bytes);
        return;
    }
    struct processor *processor = calloc(1, sizeof(*processor));
    struct command *command = processor ? command_new(session, tag, COMMAND_OPEN) : NULL;
    if (!command) {
        free(processor);
        return;
    }
    processor->offload = tcad->offload;
    processor->session = session->id;
    processor->owner.user = session->uid;
    processor->segment_bytes = PORT_QUEUE_BYTES + rounded;
    int r = peers_secret(tcad->peers, "addresses of offload processors", processor->owner.secret);
    if (r < 0)
        snprintf(text, sizeof(text), "OpenSSL does not offer HMAC with SHA-256");
    else
        r = charge_segment(session, processor, text, sizeof(text));
    if (r < 0) {
        session_fail(session, tag, r, "%s", text);
        free(command);
        free(processor);
        return;
    }
    table_add(&tcad->offload->processors, &processor->entry, session->id, processor);
    command->processor = processor;
    command->memory_bytes = rounded;
    command_submit(command);
}

/* ---- objects ---- */

static void create(struct session *session, uint32_t tag, struct processor *processor,
                   const Tca__DcfaCreate *create)
{
    char text[512];
    struct command *command = command_new(session, tag, COMMAND_CREATE);
    if (!command)
        return;
    command->processor = processor;
    command->request = (struct port_request){
        .kind = (enum dcfa_kind)create->kind,
        .domain = create->domain,
        .entries = create->entries,
        .receive_entries = create->receive_entries,
        .send_cq = create->send_cq,
        .receive_cq = create->receive_cq,
        .offset = create->offset,
        .bytes = create->bytes,
        .address = create->address,
        .access = create->access,
    };
    int r = charge_take(session->tcad, &processor->charge, session->uid, USER_OFFLOAD,
                        port_request_bytes(&command->request), "an object of an offload processor",
                        text, sizeof(text));
    if (r < 0) {
        session_fail(session, tag, r, "%s", text);
        free(command);
        return;
    }
    command_submit(command);
}

static void connect_qp(struct session *session, uint32_t tag, struct processor *processor,
                       const Tca__DcfaConnect *connect)
{
    struct command *command = command_new(session, tag, COMMAND_CONNECT);
    if (!command)
        return;
    command->processor = processor;
    command->id = connect->qp;
    command->address_bytes = connect->address.len;
    if (connect->address.len <= sizeof(command->address))
        memcpy(command->address, connect->address.data, connect->address.len);
    command_submit(command);
}

static void release(struct session *session, uint32_t tag, struct processor *processor,
                    const Tca__DcfaRelease *release)
{
    if (release->kind == DCFA_PROCESSOR) {
        session->region_bytes -= processor->segment_bytes;
        processor_close(processor, tag, true);
        return;
    }
    struct command *command = command_new(session, tag, COMMAND_RELEASE);
    if (!command)
        return;
    command->processor = processor;
    command->kind = (enum dcfa_kind)release->kind;
    command->id = release->id;
    command_submit(command);
}

void offload_request(struct session *session, uint32_t tag, const Tca__Message *message)
{
    struct processor *processor = table_find(&session->tcad->offload->processors, session->id);
    if (message->body_case == TCA__MESSAGE__BODY_DCFA_OPEN) {
        open_processor(session, tag, message->dcfa_open->memory_bytes);
        return;
    }
    if (!processor || !processor->opened) {
        session_fail(session, tag, -EINVAL, "session %" PRIu64 " has no offload processor",
                     session->id);
        return;
    }
    if (message->body_case == TCA__MESSAGE__BODY_DCFA_CREATE)
        create(session, tag, processor, message->dcfa_create);
    else if (message->body_case == TCA__MESSAGE__BODY_DCFA_CONNECT)
        connect_qp(session, tag, processor, message->dcfa_connect);
    else
        release(session, tag, processor, message->dcfa_release);
}

void offload_session_gone(struct session *session)
{
    struct processor *processor = table_find(&session->tcad->offload->processors, session->id);
    if (processor)
        processor_close(processor, 0, false);
}
