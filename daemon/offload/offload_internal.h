/* Shared by the files of daemon/offload. */
#pragma once

#include <stdbool.h>

#include "daemon/base/loop.h"
#include "daemon/base/table.h"
#include "daemon/offload/offload.h"
#include "daemon/sessions/user.h"
#include "drivers/manycore/port.h"

struct port_server;
struct verbs_device;

struct offload {
    struct tcad *tcad;
    struct table processors; /* by their sessions' ids */
    /* The worker's: the device is open while there are ports. */
    struct verbs_device *device;
    struct port_server *server;
    uint32_t ports;
    struct port_stats totals;
};

struct processor;

/* A request, passed to the worker and back. */
struct command {
    struct processor *processor;
    uint64_t session;
    uint32_t tag;
    bool replies;
    enum { COMMAND_OPEN, COMMAND_CREATE, COMMAND_CONNECT, COMMAND_RELEASE, COMMAND_CLOSE } what;
    /* arguments */
    uint64_t memory_bytes;
    struct port_request request;
    uint32_t id;
    enum dcfa_kind kind;
    uint8_t address[DCFA_ADDRESS_BYTES];
    size_t address_bytes;
    /* results */
    int r;
    uint64_t released; /* of the charge */
    struct port_created created;
    char text[400];
};

/* States: opening (port NULL), open, closing (removed from the table; freed after its last
 * command). */
struct processor {
    struct offload *offload;
    struct table_entry entry;
    uint64_t session;
    struct port_owner owner;
    uint64_t segment_bytes;
    struct charge charge;
    struct verbs_device *device; /* its own, or NULL: offload's; the worker's */
    struct port *port;           /* set and freed by the worker, in the order of the commands */
    uint32_t commands;           /* not done yet */
    bool opened;                 /* the port can be used by further commands */
    bool closing;
    const char *broken_why;
    struct loop_post broken_post;
    struct command close; /* once it is closing: its last command */
    bool close_given;     /* to the worker */
};

/* offload_command.c: gives the command to the worker, and replies when it is done. It then frees
 * the command, and the processor with its last one. */
void command_submit(struct command *command);

/* No more commands follow; it is freed when all are done. */
void processor_close(struct processor *processor, uint32_t tag, bool replies);
