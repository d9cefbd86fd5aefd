/* Commands of offload processors: on the worker, because devices can be slow, and the replies. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/worker.h"
#include "daemon/offload/offload_internal.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"
#include "drivers/manycore/server.h"

/* ---- on the worker ---- */

static void broken_on_loop(void *context)
{
    struct processor *processor = context;
    struct session *session = session_find(processor->offload->tcad, processor->session);
    if (session)
        session_end(session, processor->broken_why);
}

/* On the server's thread. */
static void broken(void *context, const char *why)
{
    struct processor *processor = context;
    processor->broken_why = why;
    loop_post_own(processor->offload->tcad->loop, &processor->broken_post, broken_on_loop,
                  processor);
}

static void close_device_if_idle(struct offload *offload)
{
    if (offload->ports > 0 || !offload->device)
        return;
    offload->server = port_server_free(offload->server);
    offload->device->ops->close(offload->device);
    offload->device = NULL;
}

static int open_device(struct offload *offload, char *text, size_t text_bytes)
{
    const struct tcad_conf *conf = offload->tcad->conf;
    if (offload->device)
        return 0;
    int r = verbs_open(conf->dcfa.device, &offload->device, text, text_bytes);
    if (r < 0)
        return r;
    r = port_server_new(offload->device, conf->engine.spin_ns, conf->engine.yield_ns,
                        &offload->server);
    if (r < 0)
        snprintf(text, text_bytes, "no thread for offload processors: %s", strerrordesc_np(-r));
    return r;
}

static void close_own_device(struct processor *processor)
{
    if (processor->device)
        processor->device->ops->close(processor->device);
    processor->device = NULL;
}

/* The port's device: a context of its own, if it is to drive its queues itself and the device can
 * do that, else the common one. */
static int choose_device(struct processor *processor, struct verbs_device **ret_device, char *text,
                         size_t text_bytes)
{
    struct offload *offload = processor->offload;
    *ret_device = offload->device;
    if (!offload->tcad->conf->dcfa.direct)
        return 0;
    int r = verbs_open_direct(offload->device, &processor->device);
    if (r == -EOPNOTSUPP)
        return 0;
    if (r == 0)
        *ret_device = processor->device;
    else
        snprintf(text, text_bytes, "a context of %s for an offload processor (dcfa.direct): %s",
                 offload->device->name, strerrordesc_np(-r));
    return r;
}

static int open_port(struct command *command)
{
    struct processor *processor = command->processor;
    struct offload *offload = processor->offload;
    struct verbs_device *device;
    int r = open_device(offload, command->text, sizeof(command->text));
    if (r == 0)
        r = choose_device(processor, &device, command->text, sizeof(command->text));
    if (r == 0) {
        r = port_new(offload->server, device, processor->owner, command->memory_bytes,
                     &offload->totals, broken, processor, &processor->port);
        if (r < 0)
            snprintf(command->text, sizeof(command->text),
                     "memory of %llu bytes for an offload processor: %s",
                     (unsigned long long)command->memory_bytes, strerrordesc_np(-r));
    }
    offload->ports += r == 0;
    if (r < 0)
        close_own_device(processor);
    close_device_if_idle(offload);
    return r;
}

static void close_port(struct processor *processor)
{
    struct offload *offload = processor->offload;
    if (!processor->port)
        return;
    processor->port = port_free(processor->port);
    close_own_device(processor);
    offload->ports--;
    close_device_if_idle(offload);
}

static void work(void *context)
{
    struct command *command = context;
    struct port *port = command->processor->port;
    char *text = command->text;
    const size_t text_bytes = sizeof(command->text);
    int64_t released;
    switch (command->what) {
    case COMMAND_OPEN:
        command->r = open_port(command);
        return;
    case COMMAND_CREATE:
        command->r = port_create(port, &command->request, &command->created, text, text_bytes);
        command->released = command->r < 0 ? port_request_bytes(&command->request) : 0;
        return;
    case COMMAND_CONNECT:
        command->r = port_connect(port, command->id, command->address, command->address_bytes, text,
                                  text_bytes);
        return;
    case COMMAND_RELEASE:
        released = port_release(port, command->kind, command->id, text, text_bytes);
        command->r = released < 0 ? (int)released : 0;
        command->released = released < 0 ? 0 : (uint64_t)released;
        return;
    case COMMAND_CLOSE:
        close_port(command->processor);
        return;
    }
}

/* ---- replies ---- */

static void reply_opened(struct session *session, const struct command *command)
{
    const struct port *port = command->processor->port;
    Tca__DcfaOpened opened =
        BODY_OF(dcfa_opened, .segment_bytes = port->segment_bytes,
                .memory_offset = PORT_QUEUE_BYTES, .device = port->device->name);
    const Tca__Message message = MESSAGE_OF(DCFA_OPENED, dcfa_opened, &opened);
    opened.direct = port_is_direct(port);
    session_answer(session, command->tag, &message,
                   (int[]){port->segment_fd, port->wake_fd, port->device->fd},
                   opened.direct ? 3 : 2);
}

static void reply_created(struct session *session, struct command *command)
{
    Tca__DcfaCreated created = TCA__DCFA_CREATED__INIT;
    created.kind = command->request.kind;
    created.id = command->created.id;
    created.queue_offset = command->created.queue.offset;
    created.queue_bytes = command->created.queue.bytes;
    created.receive_offset = command->created.receive.offset;
    created.receive_bytes = command->created.receive.bytes;
    created.device_handle = command->created.device_handle;
    created.device_number = command->created.device_number;
    created.local_key = command->created.local_key;
    created.remote_key = command->created.remote_key;
    if (command->request.kind == DCFA_QP)
        created.address = (ProtobufCBinaryData){DCFA_ADDRESS_BYTES, command->created.address};
    const Tca__Message message = MESSAGE_OF(DCFA_CREATED, dcfa_created, &created);
    session_answer(session, command->tag, &message, NULL, 0);
}

static void reply(struct session *session, struct command *command)
{
    if (command->r < 0) {
        session_fail(session, command->tag, command->r, "%s", command->text);
    } else if (command->what == COMMAND_OPEN) {
        reply_opened(session, command);
    } else if (command->what == COMMAND_CREATE) {
        reply_created(session, command);
    } else {
        session_done(session, command->tag);
    }
}

/* ---- on the loop ---- */

static void finish(struct command *command);

static void done(void *context)
{
    finish(context);
}

/* The worker ends. */
static void dropped(void *context)
{
    struct command *command = context;
    command->r = -ECANCELED;
    if (command->what == COMMAND_CLOSE)
        close_port(command->processor);
    finish(command);
}

/* Gives the worker the last command, or runs it here when there is no memory for that and no other
 * command can be running. */
static void try_close(struct processor *processor)
{
    struct worker *worker = processor->offload->tcad->worker;
    if (worker_submit(worker, WORKER_OFFLOAD, work, done, dropped, &processor->close) == 0) {
        processor->commands++;
        processor->close_given = true;
    } else if (processor->commands == 0) {
        processor->commands++;
        processor->close_given = true;
        work(&processor->close);
        finish(&processor->close);
    }
}

void processor_close(struct processor *processor, uint32_t tag, bool replies)
{
    table_remove(&processor->offload->processors, &processor->entry);
    processor->closing = true;
    processor->close = (struct command){.processor = processor,
                                        .session = processor->session,
                                        .tag = tag,
                                        .replies = replies,
                                        .what = COMMAND_CLOSE};
    try_close(processor);
}

static void finish(struct command *command)
{
    struct processor *processor = command->processor;
    struct session *session = session_find(processor->offload->tcad, command->session);
    processor->commands--;
    charge_lower(&processor->charge, command->released);
    if (session && command->replies)
        reply(session, command);
    if (command->what == COMMAND_CLOSE) {
        charge_drop(&processor->charge);
        free(processor);
        return;
    }
    if (command->what == COMMAND_OPEN && command->r == 0) {
        processor->opened = true;
    } else if (command->what == COMMAND_OPEN && !processor->closing) {
        if (session)
            session->region_bytes -= processor->segment_bytes;
        processor_close(processor, 0, false);
    }
    free(command);
    if (processor->closing && !processor->close_given && processor->commands == 0)
        try_close(processor);
}

void command_submit(struct command *command)
{
    struct tcad *tcad = command->processor->offload->tcad;
    command->processor->commands++;
    if (worker_submit(tcad->worker, WORKER_OFFLOAD, work, done, dropped, command) == 0)
        return;
    command->r = -ENOMEM;
    strcpy(command->text, "out of memory for a command of an offload processor");
    if (command->what == COMMAND_CREATE)
        command->released = port_request_bytes(&command->request);
    finish(command);
}
