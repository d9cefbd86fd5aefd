/* Puts: compiled to chains of descriptors, or staged and stored through the window. */
#pragma once

#include <stdbool.h>

#include "drivers/driver.h"
#include "drivers/peach2/registers.h"

struct peach2;
struct peer;

/* Descriptors being put together: see compile.c. */
struct builder {
    struct peach2_descriptor *descriptors;
    uint32_t count, max;
    int64_t source_stride, destination_stride;
    uint32_t blocks;
};

struct piece {        /* a segment at work */
    uint32_t command; /* of the channel: free once that was sent */
    uint32_t channel;
    bool busy;
};

enum put_kind { PUT_CHAIN, PUT_STAGED, PUT_NOTHING };

enum put_state {
    PUT_IDLE,
    PUT_QUEUED, /* waits for its turn, or is being handed over */
    PUT_SENT,   /* waits for its acknowledgement */
    PUT_UNSURE, /* which will not come: only the peer knows */
};

struct put {
    enum put_kind kind;
    enum put_state state;
    struct peer *peer;
    uint64_t flow;
    uint64_t size_bytes;
    uint64_t id; /* of the landing */
    bool notify;
    /* PUT_CHAIN, PUT_NOTHING */
    uint32_t fetch;
    uint32_t first_slot, slot_count;
    struct peach2_descriptor alone; /* PEACH2_FETCH_REGISTERS: stored with each start */
    /* PUT_STAGED */
    bool window; /* some of it goes through the window: earlier puts must have left */
    const struct layout *source_layout, *target_layout;
    const uint8_t *source;
    uint64_t target; /* global address of the layout's base */
    struct layout_cursor source_cursor, target_cursor;
    bool staging; /* the cursors stand somewhere */
    /* while it runs */
    struct driver_op *op;
    unsigned channel;
    uint32_t sequence;
    uint32_t command; /* the last of it: number behind it */
    struct put *next;
};

/* Puts that run to one peer by one channel, in order. */
struct stream {
    struct put *first, **last;
    struct put *turn;       /* the first that was not wholly handed over; NULL: none */
    uint32_t next_sequence; /* of the next put that is sent */
    uint32_t last_command;  /* of the channel, for it */
};

/* ---- compile.c ---- */
/* Adds a contiguous piece that the hardware can move: false when there is no room for another
 * descriptor. */
bool peach2_builder_add(struct builder *builder, uint64_t source, uint64_t destination,
                        uint32_t bytes);
/* 0; -EOPNOTSUPP: not all of it can be done in hardware; -E2BIG: more than max descriptors. */
int peach2_compile(const struct layout *source, uint64_t source_bus, const struct layout *target,
                   uint64_t target_global, struct peach2_descriptor *ret_descriptors, uint32_t max,
                   uint32_t *ret_count);

/* ---- window.c ---- */
/* Lines that can be stored now. */
uint32_t peach2_window_room(const struct peach2 *peach2);
/* The caller has made sure of room. What is collected is stored by the next start, message, or
 * peach2_window_push(). */
void peach2_window_store(struct peach2 *peach2, uint64_t address, const uint8_t *bytes,
                         uint32_t length);
void peach2_window_push(struct peach2 *peach2);

/* ---- stage.c ---- */
/* Moves a staged put on. */
enum stage_result { STAGE_BLOCKED, STAGE_MOVED, STAGE_END };
enum stage_result peach2_stage_run(struct peach2 *peach2, struct put *put);
/* Whether any of it goes through the window; descriptors: about. */
bool peach2_stage_uses_window(const struct put *put, uint32_t segment_bytes,
                              uint32_t *ret_descriptors);

/* ---- put.c ---- */
int peach2_put_prepare(struct driver *driver, const struct driver_put_args *args,
                       struct driver_put **ret_put, struct driver_put_info *ret_info);
void peach2_put_release(struct driver *driver, struct driver_put *put);
int peach2_put_post(struct driver *driver, struct driver_put *put, struct driver_op *op);
