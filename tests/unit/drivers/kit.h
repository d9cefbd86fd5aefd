/* For tests of drivers: shapes that compute the position of each byte themselves, and a pair of
 * connected driver instances. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "drivers/driver.h"

/* outer times count blocks; independent of the layout that is made of it. */
struct shape {
    uint64_t block;
    uint64_t count;
    int64_t stride;
    uint64_t outer;
    int64_t outer_stride;
    int64_t offset;
};
uint64_t shape_bytes(const struct shape *shape);
/* The offset of packed byte `position`. */
int64_t shape_place(const struct shape *shape, uint64_t position);
struct layout *shape_layout(const struct shape *shape);

/* Pseudo-random bytes, the same for the same seed. */
void fill(uint8_t *bytes, size_t length, uint32_t seed);
uint32_t next_random(uint32_t *state);

enum { NOTIFIED_MAX = 4096 };

struct side {
    struct driver *driver;
    struct driver *regions; /* the instance that has the region: the driver, or its trunk */
    struct driver_region *region;
    uint8_t *memory;
    size_t bytes;
    uint64_t notified[NOTIFIED_MAX]; /* tokens in order */
    unsigned notified_count;
    unsigned downs;
    int down_error;
    unsigned paired_count; /* connections for pairs; the last one: */
    uint64_t paired;
    int paired_fd;
    bool paired_encrypts;
    /* checked within notified(): NULL, or the expected memory */
    const uint8_t *expected;
    bool early;         /* it was not, or test() has found another reason */
    void (*test)(void); /* called within notified(); NULL: nothing */
};

struct op {
    struct driver_op op;
    int status;
    unsigned done;
};

/* For drivers that need a board: the path of the next one's. Defined by tests that have some. */
const char *side_board(void) __attribute__((weak));
unsigned side_board_nodes(void) __attribute__((weak));  /* 2 without */
uint64_t side_board_window(void) __attribute__((weak)); /* bytes of bus addresses; without: all */
/* Opens an instance with a region of so many bytes; 0, or the driver's error. */
/* driver_config.own for an instance on loopback of the driver with this name. */
const void *side_config(const char *name);
int side_open(struct side *side, const char *name, uint64_t segment_bytes, size_t bytes);
/* Opens a branch of the instance, with a region of its own. Close it first. */
int side_open_branch(struct side *side, struct side *trunk, size_t bytes);
/* The name of tcp's instances without a port, and a new connection between two of them. */
#define TCP_SEAT "tcp seat"
void side_join(struct side *a, struct driver_peer *peer_a, struct side *b,
               struct driver_peer *peer_b, const uint8_t *secret);
/* The same of hca's in processes, which connect by offers; a dials. */
#define HCA_SEAT "hca seat"
void side_exchange_offers(struct side *a, struct driver_peer *peer_a, struct side *b,
                          struct driver_peer *peer_b);
void side_close(struct side *side);
/* peer_connect() of a driver whose peers need no answer. */
int connect_to(struct driver *driver, const void *address, size_t address_bytes,
               struct driver_peer **ret_peer);
/* Connects one instance to another, or to itself. ret_back: the peer that the other one had to make
 * for that; NULL: none. */
int connect_sides(struct side *from, struct side *to, struct driver_peer **ret_peer,
                  struct driver_peer **ret_back);
void op_init(struct op *op);

/* Advances both until *counter >= goal; false after half a minute without that. */
bool pump_until(struct side *a, struct side *b, const unsigned *counter, unsigned goal);
/* Some more rounds, to check for events that must not come. */
void pump_rounds(struct side *a, struct side *b, unsigned rounds);
/* Posts, and tries again while the driver returns -EAGAIN. */
int post(struct side *a, struct side *b, struct driver_put *put, struct op *op);
