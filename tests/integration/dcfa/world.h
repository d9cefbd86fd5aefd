/* Offload processors for tests: processes of one group, each connected to each. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/include/tca-dcfa.h"
#include "tests/integration/dcfa/check.h"

enum { RANKS_MAX = 8, MEMORY_BYTES = 4 << 20, ENTRIES = 64, CQ_ENTRIES = 2048 };

struct card { /* what ranks tell each other */
    struct dcfa_address addresses[RANKS_MAX];
    uint64_t memory;
    uint32_t key, closed_key; /* of all memory: for every access, and for none */
};

struct world {
    struct tca *session;
    struct dcfa *processor;
    uint32_t rank, size;
    uint8_t *memory;
    struct dcfa_pd *pd;
    struct dcfa_cq *cq;
    struct dcfa_qp *qps[RANKS_MAX];
    struct dcfa_mr *mr, *closed;
    struct card cards[RANKS_MAX];
};

/* Runs as `size` processes, and returns their exit status: 0 if all succeed. dies: a rank that ends
 * by a signal; -1: none. */
int world_run(uint32_t size, int dies, void (*run)(struct world *world));
void world_open(struct world *world, const char *group, uint32_t rank, uint32_t size);
void world_close(struct world *world);
void world_barrier(struct world *world);
/* New queue pairs to all ranks, after the old ones have failed. All ranks call it. */
void world_connect(struct world *world);

/* One completion, which must come from `qp` (NULL: any). */
struct dcfa_completion world_wait(struct world *world, const struct dcfa_qp *qp);
/* Transfers a range of this memory to or from a peer's, at the given offsets, and waits. */
struct dcfa_completion world_move(struct world *world, uint32_t peer, enum dcfa_operation what,
                                  uint64_t mine, uint64_t theirs, uint32_t bytes);
struct dcfa_piece world_piece(const struct world *world, uint64_t offset, uint32_t bytes);
/* Deterministic contents of memory. */
void world_fill(uint8_t *at, uint32_t bytes, uint32_t seed);
bool world_is(const uint8_t *at, uint32_t bytes, uint32_t seed);
