/* Puts: compiled to chains of descriptors, or staged. */
#pragma once

#include <stdbool.h>

#include "drivers/driver.h"
#include "drivers/peach2/registers.h"

struct peach2;
struct peer;

/* A chain under construction: see compile.c. */
struct builder {
    struct peach2_descriptor *descriptors;
    uint32_t count, max;
    int64_t source_stride, destination_stride;
    uint32_t blocks;
};

struct piece {        /* a staging segment */
    uint32_t command; /* of the channel; the segment is free once it was sent */
    uint32_t channel;
    bool busy;
};

enum put_kind { PUT_CHAIN, PUT_STAGED, PUT_NOTHING };

enum put_state {
    PUT_IDLE,
    PUT_QUEUED, /* waits, or is being handed to the board */
    PUT_SENT,   /* waits for its acknowledgement */
    PUT_UNSURE, /* the acknowledgement will not arrive: only the peer knows its state */
};

struct put {
    enum put_kind kind;
    enum put_state state;
    struct peer *peer;
    uint64_t flow;
    uint64_t size_bytes;
    uint64_t id; /* of the landing */
    bool notify;
    bool stale;                        /* its target was recalled: see recalled.c */
    uint64_t recall;                   /* of the landing */
    uint64_t target_first, target_end; /* bus addresses; none: a notification without data */
    struct put *next_prepared, **link_prepared; /* to the same node */
    /* PUT_CHAIN, PUT_NOTHING */
    uint32_t fetch;
    uint32_t first_slot, slot_count;
    struct peach2_descriptor alone; /* PEACH2_FETCH_REGISTERS: stored with each start */
    /* PUT_STAGED */
    bool window; /* uses the window: all earlier commands must have been sent */
    const struct layout *source_layout, *target_layout;
    const uint8_t *source;
    uint64_t target;                           /* global address of the layout's base */
    uint64_t source_at_bytes, target_at_bytes; /* packed positions from which a start moves bytes */
    struct layout_cursor source_cursor, target_cursor;
    bool staging; /* in progress: the cursors are valid */
    /* of a put whose starts move parts: either PUT_STAGED or a chain of one descriptor */
    bool flat; /* both layouts are contiguous, from these bus and global addresses: */
    uint64_t flat_source, flat_target;
    /* while it runs */
    struct driver_op *op;
    unsigned channel;
    uint32_t sequence;
    uint32_t command; /* number after its last command */
    struct put *next;
};

/* The puts to one peer on one channel, in order. */
struct stream {
    struct put *first, **last;
    struct put *turn;       /* the first not completely handed to the board, or NULL */
    uint32_t next_sequence; /* of the next put to be sent */
    uint32_t last_command;  /* number after its last command on the channel */
};

/* ---- compile.c ---- */
/* Adds a contiguous piece that the hardware can move. False: no room for another descriptor. */
bool peach2_builder_add(struct builder *builder, uint64_t source, uint64_t destination,
                        uint32_t bytes);
/* Whether the hardware can move these bytes. */
bool peach2_movable(uint64_t source, uint64_t destination, uint64_t bytes);
/* 0, -EOPNOTSUPP (the hardware does not support the layouts) or -E2BIG (more than max
 * descriptors). */
int peach2_compile(const struct layout *source, uint64_t source_bus, const struct layout *target,
                   uint64_t target_global, struct peach2_descriptor *ret_descriptors, uint32_t max,
                   uint32_t *ret_count);

/* ---- window.c ---- */
/* The number of lines that can be stored now. */
uint32_t peach2_window_room(const struct peach2 *peach2);
/* Adds bytes to the current line and pushes full ones; peach2_window_push() pushes the last. The
 * caller has checked peach2_window_room(). */
void peach2_window_store(struct peach2 *peach2, uint64_t address, const uint8_t *bytes,
                         uint32_t length);
void peach2_window_push(struct peach2 *peach2);

/* ---- stage.c ---- */
/* Advances a staged put. */
enum stage_result { STAGE_BLOCKED, STAGE_MOVED, STAGE_END };
enum stage_result peach2_stage_run(struct peach2 *peach2, struct put *put);
/* Whether a put uses the window. *ret_descriptors is an estimate. */
bool peach2_stage_uses_window(const struct put *put, uint32_t segment_bytes,
                              uint32_t *ret_descriptors);

/* ---- put.c ---- */
int peach2_put_prepare(struct driver *driver, const struct driver_put_args *args,
                       struct driver_put **ret_put, struct driver_put_info *ret_info);
void peach2_put_release(struct driver *driver, struct driver_put *put);
void peach2_put_part(struct driver *driver, struct driver_put *put, const struct driver_part *part);
int peach2_put_post(struct driver *driver, struct driver_put *put, struct driver_op *op);
