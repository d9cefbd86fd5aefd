/* A program of random messages whose results MPI determines: what its files share. */
#pragma once

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- numbers that depend on the seed only ---- */

static inline uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t x = (a ^ (b * UINT64_C(0x9e3779b97f4a7c15))) + UINT64_C(0x632be59bd9b4e019);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

struct dice {
    uint64_t state;
};
static inline int roll(struct dice *dice, int below)
{
    dice->state++;
    return (int)(mix(dice->state, 77) % (uint64_t)below);
}

/* ---- random_memory.c ---- */

/* The memory of one side of a message: elements of a basic datatype in a random form, with space
 * before and behind it. */
enum basic { BASIC_BYTE, BASIC_INT, BASIC_DOUBLE, BASIC_PAIR, BASICS };

struct memory {
    uint8_t *bytes;
    size_t size;
    void *base;
    MPI_Datatype type; /* to be freed if derived */
    bool derived;
    int count;
};
void memory_init(struct memory *memory, enum basic basic, int elements, uint64_t seed);
void memory_fill(struct memory *memory, uint64_t seed);
uint64_t memory_digest(const struct memory *memory);
/* What `to` would be after it had received `from`, or its beginning if `to` has more elements. */
void memory_receive(struct memory *to, const struct memory *from);
/* Frees the datatype, which messages that are under way keep. */
void memory_forget_type(struct memory *memory);
void memory_deinit(struct memory *memory);

/* ---- random_plan.c ---- */

enum {
    RANKS_MAX = 64,
    COMMS = 5,
    MESSAGES_MAX = 40,
    PARTS = 3, /* that a persistent request is started */
};

extern int rank, size; /* of MPI_COMM_WORLD */
extern unsigned scene_number;
extern bool telling; /* on stderr, what was received */
/*
 * RANDOM_MESSAGES_BARE is set: leave out what the MPI alone does wrongly. Open MPI 4.1 sends the
 * data of the first start again in later starts of a long MPI_Bsend_init(), and does not say that a
 * message to itself is truncated. MPICH 4.0 takes some messages of pairs for truncated, dies of a
 * message to itself whose request was freed, and over UCX of messages matched by MPI_Mprobe().
 */
extern bool bare_openmpi, bare_mpich;

/* Colours and ranks of all ranks of MPI_COMM_WORLD. */
struct comm {
    MPI_Comm comm;
    int colour[RANKS_MAX], rank[RANKS_MAX];
};
extern struct comm comms[COMMS];
void comms_init(struct dice *plan);
void comms_deinit(void);

enum send_kind {
    SEND_ISEND,
    SEND_ISSEND,
    SEND_IBSEND,
    SEND_INIT,
    SEND_SSEND_INIT,
    SEND_BSEND_INIT,
    SEND_BSEND,
    SEND_ISEND_FREE,
    SENDS_TO_LATE, /* the others must find their receive */
    SEND_SEND = SENDS_TO_LATE,
    SEND_SSEND,
    SEND_RSEND,
    SEND_IRSEND,
    SEND_RSEND_INIT,
    SENDS,
};

enum receive_kind {
    RECEIVE_IRECV,
    RECEIVE_INIT,
    RECEIVES_EARLY,
    RECEIVE_RECV = RECEIVES_EARLY,
    RECEIVE_PROBE,
    RECEIVE_IPROBE,
    RECEIVE_MPROBE,
    RECEIVE_IMPROBE,
    RECEIVES,
};

struct message {
    int number;
    const struct comm *comm;
    int from, to; /* in MPI_COMM_WORLD */
    int tag;
    enum basic basic;
    int elements, room;
    enum send_kind send;
    enum receive_kind receive;
    bool any_source, any_tag;
    bool pool; /* one of several that any of the receives of this tag may get */
    bool free_type;
};

struct scene {
    bool early; /* receives are made before the sends */
    int repetitions;
    int message_count;
    struct message messages[MESSAGES_MAX];
    bool collective; /* one while messages are under way */
    int completion;
};

int draw_elements(struct dice *plan);
enum basic draw_basic(struct dice *plan);
void draw_scene(struct dice *plan, struct scene *scene);

/* ---- random_play.c ---- */

extern uint64_t play_seed;    /* of the scene */
extern struct dice play_dice; /* of this rank */
extern uint64_t play_digest;  /* of what this rank has received in the scene, in any order */
extern unsigned wrong_count;

void fail(const char *what, int code);
void wrong(const char *what, int number);
void add_digest(const char *what, uint64_t number, uint64_t digest);
#define TRY(call)                                                                                  \
    do {                                                                                           \
        int tried = (call);                                                                        \
        if (tried != MPI_SUCCESS)                                                                  \
            fail(#call, tried);                                                                    \
    } while (0)

void play_messages(struct dice *plan);
