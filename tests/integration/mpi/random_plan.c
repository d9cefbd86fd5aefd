/* The plan of a scene, which all ranks draw alike. */
#include <string.h>

#include "tests/integration/mpi/random_messages.h"

/* ---- communicators ---- */

struct comm comms[COMMS];

static void number_comm(struct comm *comm)
{
    for (int i = 0; i < size; i++) {
        comm->rank[i] = 0;
        for (int j = 0; j < i; j++)
            comm->rank[i] += comm->colour[j] == comm->colour[i];
    }
}

void comms_init(struct dice *plan)
{
    for (int i = 0; i < COMMS; i++)
        memset(comms[i].colour, 0, sizeof(comms[i].colour));
    comms[0].comm = MPI_COMM_WORLD;
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[1].comm);
    for (int i = 0; i < size; i++)
        comms[2].colour[i] = roll(plan, 2);
    MPI_Comm_split(MPI_COMM_WORLD, comms[2].colour[rank], rank, &comms[2].comm);
    MPI_Cart_create(MPI_COMM_WORLD, 1, &size, (const int[]){1}, 0, &comms[3].comm);
    MPI_Comm_split(comms[1].comm, 0, -rank, &comms[4].comm);
    for (int i = 0; i < COMMS; i++)
        number_comm(&comms[i]);
    for (int i = 0; i < size; i++)
        comms[4].rank[i] = size - 1 - i;
    for (int i = 0; i < COMMS; i++)
        MPI_Comm_set_errhandler(comms[i].comm, MPI_ERRORS_RETURN);
}

void comms_deinit(void)
{
    for (int i = 1; i < COMMS; i++)
        MPI_Comm_free(&comms[i].comm);
}

/* ---- the plan of a scene ---- */

int draw_elements(struct dice *plan)
{
    switch (roll(plan, 12)) {
    case 0:
        return 0;
    case 1:
        return 1;
    case 2:
    case 3:
        return roll(plan, 600);
    case 4:
        return 2000 + roll(plan, 100);
    case 5:
    case 6:
        return roll(plan, 20000);
    case 7:
        return roll(plan, 4) == 0 ? roll(plan, 200000) : 64 * roll(plan, 300);
    default:
        return roll(plan, 64);
    }
}

enum basic draw_basic(struct dice *plan)
{
    return (enum basic)roll(plan, bare_mpich ? BASIC_PAIR : BASICS);
}

static int draw_peer(struct dice *plan, const struct comm *comm, int of)
{
    int peer;
    do
        peer = roll(plan, size);
    while (comm->colour[peer] != comm->colour[of]);
    return peer;
}

enum { TAGS = 6, OWN_TAGS = 100, POOL_TAG = 1000 };

static void draw_message(struct dice *plan, struct scene *scene, int number)
{
    struct message *message = &scene->messages[number];
    *message = (struct message){.number = number};
    /* One communicator is for pools, because a receive of any tag could take from them. */
    message->comm = &comms[roll(plan, COMMS)];
    message->from = roll(plan, size);
    message->to = draw_peer(plan, message->comm, message->from);
    message->pool = message->comm == &comms[1];
    message->basic = draw_basic(plan);
    message->elements = draw_elements(plan);
    message->room = message->elements + (roll(plan, 4) == 0 ? roll(plan, 200) : 0);
    message->send = (enum send_kind)roll(plan, scene->early ? SENDS : SENDS_TO_LATE);
    if (bare_openmpi && message->send == SEND_BSEND_INIT)
        message->send = SEND_INIT;
    if (bare_mpich && message->send == SEND_ISEND_FREE && message->from == message->to)
        message->send = SEND_ISEND;
    message->receive = (enum receive_kind)roll(plan, scene->early ? RECEIVES_EARLY : RECEIVES);
    message->tag = roll(plan, TAGS);
    message->any_tag = roll(plan, 4) == 0;
    if (roll(plan, 4) == 0) { /* a tag of its own determines the source */
        message->tag = OWN_TAGS + number;
        message->any_source = true;
        message->any_tag = false;
    }
    message->free_type = roll(plan, 3) == 0;
    if (message->pool) {
        message->tag = POOL_TAG + message->to;
        message->any_source = true;
        message->any_tag = false;
        message->basic = BASIC_INT;
        message->room = 4000;
        message->elements = roll(plan, 4) == 0 ? 3000 + roll(plan, 1000) : roll(plan, 300);
    }
}

void draw_scene(struct dice *plan, struct scene *scene)
{
    scene->early = roll(plan, 2);
    scene->repetitions = 1 + (roll(plan, 3) == 0 ? roll(plan, PARTS) : 0);
    scene->message_count = 1 + roll(plan, MESSAGES_MAX);
    scene->collective = roll(plan, 4) == 0;
    scene->completion = roll(plan, 8);
    for (int i = 0; i < scene->message_count; i++)
        draw_message(plan, scene, i);
}
