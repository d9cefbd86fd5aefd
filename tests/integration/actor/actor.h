/*
 * actor: a client program that does what it is told. It reads one command a line from standard
 * input and answers each with one line on standard output: "ok WORDS" or "error -ENAME TEXT". The
 * integration tests direct several of these at once, and kill them.
 *
 * Regions and plans are named by the numbers that `alloc` and `plan` answer. A data layout is
 * written BYTES, or COUNTxBLOCKxSTRIDE, with an i behind it when its blocks are to be named one by
 * one and out of order (7 and COUNT have no divisor in common then). Times are in milliseconds; -1
 * is TCA_FOREVER, -2 TCA_DEFAULT.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/include/tca.h"

enum { REGIONS_MAX = 256, PLANS_MAX = 8192, WORDS_MAX = 32 };

struct actor {
    struct tca *session;
    struct tca_region *regions[REGIONS_MAX];
    void *attached[REGIONS_MAX]; /* memory that was attached, by the region's number */
    struct tca_plan *plans[PLANS_MAX];
    uint32_t region_count, plan_count; /* numbers given so far; numbers are not used again */
};

/* A command's words; words[0] is its name. */
struct words {
    char *at[WORDS_MAX];
    size_t count;
};

/* One line each. say_result(): "ok" or what the library says of the error. All return 0. */
int say(const char *format, ...) __attribute__((format(printf, 1, 2)));
int say_result(int result);
/* "error -ENAME text" of our own. */
int say_error(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));
void say_bytes(const void *bytes, size_t count); /* in hexadecimal, after "ok " */

/* A command that is written wrongly is a mistake in the test: these end the program. */
uint64_t word_number(const struct words *words, size_t index);
int64_t word_signed(const struct words *words, size_t index);
int64_t word_timeout_ns(const struct words *words, size_t index);
const char *word(const struct words *words, size_t index);
void word_bytes(const struct words *words, size_t index, void *bytes, size_t count);
struct tca_region *word_region(const struct actor *actor, const struct words *words, size_t index);
struct tca_plan *word_plan(const struct actor *actor, const struct words *words, size_t index);

struct shape {
    uint64_t count, block_bytes;
    int64_t stride_bytes;
    bool indexed;
};
struct shape word_shape(const struct words *words, size_t index);
struct tca_layout *shape_layout(struct shape shape);
/* Writes or checks the bytes that the seed stands for. shape_check(): how many bytes were right
 * before the first wrong one. */
void shape_fill(void *base, struct shape shape, uint64_t seed);
uint64_t shape_check(const void *base, struct shape shape, uint64_t seed);
uint64_t shape_bytes(struct shape shape);
void shape_mark(uint8_t *inside, struct shape shape); /* 1 to every byte of it */

/* Whether the director has sent another line: an endless command ends then. */
bool line_waits(void);

/* A table of commands per file, ended by a NULL name. */
struct command {
    const char *name;
    size_t words; /* at least, the name not counted */
    int (*run)(struct actor *actor, const struct words *words);
};
extern const struct command session_commands[], data_commands[], plan_commands[],
    transfer_commands[], exchange_commands[], crowd_commands[], dmabuf_commands[],
    signal_commands[];
