/* Plays the messages of a scene at this rank. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/integration/mpi/random_messages.h"

enum { REQUESTS_MAX = 2 * MESSAGES_MAX + 8 };

uint64_t play_seed, play_digest;
struct dice play_dice;
unsigned wrong_count;

/* A side of a message at this rank. */
struct side {
    const struct message *message;
    bool sends;
    struct memory memory;
    MPI_Request request; /* kept: persistent */
    bool persistent, done;
    MPI_Status status;
};

static struct {
    const struct scene *scene;
    struct side sides[2 * MESSAGES_MAX];
    int side_count;
    MPI_Request requests[REQUESTS_MAX];
    struct side *owners[REQUESTS_MAX]; /* NULL: a null request */
    int request_count;
    int taken[MESSAGES_MAX]; /* of a pool: the last repetition in which it was received + 1 */
} play;

void wrong(const char *what, int number)
{
    wrong_count++;
    fprintf(stderr, "scene %u, rank %d: %s (%d)\n", scene_number, rank, what, number);
}

void fail(const char *what, int code)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    MPI_Error_string(code, text, &length);
    fprintf(stderr, "scene %u, rank %d: %s: %s\n", scene_number, rank, what, text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void add_request(struct side *side, MPI_Request request)
{
    play.owners[play.request_count] = side;
    play.requests[play.request_count++] = request;
}

void add_digest(const char *what, uint64_t number, uint64_t digest)
{
    if (telling)
        fprintf(stderr, "rank %d: %s %llu: %016llx\n", rank, what, (unsigned long long)number,
                (unsigned long long)digest);
    play_digest += mix(number + 1, digest);
}

static struct memory memory_of(const struct message *message, bool sends, int repetition)
{
    struct memory memory;
    uint64_t number = message->pool && !sends ? 5000 : (uint64_t)message->number;
    memory_init(&memory, message->basic, sends ? message->elements : message->room,
                mix(mix(play_seed, number), sends));
    memory_fill(&memory, mix(mix(play_seed, number), (uint64_t)(2 * repetition + sends)));
    return memory;
}

/* Whether a receive has got this message. */
static bool got(const struct side *side, const struct message *message, int repetition)
{
    int bytes = -1, size_bytes;
    MPI_Get_count(&side->status, MPI_BYTE, &bytes);
    struct memory out = memory_of(message, true, repetition);
    struct memory in = memory_of(side->message, false, repetition);
    MPI_Type_size(out.type, &size_bytes);
    memory_receive(&in, &out);
    bool same = side->status.MPI_SOURCE == message->comm->rank[message->from] &&
                side->status.MPI_TAG == message->tag && bytes == size_bytes * out.count &&
                in.size == side->memory.size && memcmp(in.bytes, side->memory.bytes, in.size) == 0;
    memory_deinit(&out);
    memory_deinit(&in);
    return same;
}

/* Whether it has got what it should; of a pool, one of the messages that no other has got. */
static void check(const struct side *side, int repetition)
{
    const struct scene *scene = play.scene;
    bool good = false;
    if (!side->message->pool) {
        good = got(side, side->message, repetition);
    } else {
        for (int i = 0; i < scene->message_count && !good; i++) {
            const struct message *message = &scene->messages[i];
            if (!message->pool || message->to != rank || play.taken[i] == repetition + 1)
                continue;
            good = got(side, message, repetition);
            if (good)
                play.taken[i] = repetition + 1;
        }
    }
    if (!good)
        wrong("not the message that was sent", side->message->number);
}

/* What a receive has got. */
static void received(struct side *side)
{
    const struct message *message = side->message;
    int bytes = -1, count = -1, elements = -1, cancelled = -1;
    MPI_Get_count(&side->status, MPI_BYTE, &bytes);
    if (side->memory.derived) {
        MPI_Get_count(&side->status, side->memory.type, &count);
        MPI_Get_elements(&side->status, side->memory.type, &elements);
    }
    MPI_Test_cancelled(&side->status, &cancelled);
    uint64_t digest = mix((uint64_t)side->status.MPI_SOURCE, (uint64_t)side->status.MPI_TAG);
    digest = mix(digest, mix((uint64_t)bytes, (uint64_t)cancelled));
    digest = mix(digest, memory_digest(&side->memory));
    if (!message->pool)
        digest = mix(digest, mix((uint64_t)count, (uint64_t)elements));
    if (telling)
        fprintf(stderr, "rank %d: message %d: source %d, tag %d, %d bytes, %d x, %d elements\n",
                rank, message->number, side->status.MPI_SOURCE, side->status.MPI_TAG, bytes, count,
                elements);
    add_digest("received", message->pool ? 1000 : (uint64_t)message->number, digest);
}

static void complete(struct side *side, const MPI_Status *status)
{
    if (!side)
        return;
    side->done = true;
    side->status = *status;
}

static enum receive_kind receive_kind_of(const struct message *message)
{
    if (bare_mpich && (message->receive == RECEIVE_MPROBE || message->receive == RECEIVE_IMPROBE))
        return RECEIVE_PROBE;
    return message->receive;
}

static void start_receive(struct side *side)
{
    const struct message *message = side->message;
    const struct memory *memory = &side->memory;
    const int source = message->any_source ? MPI_ANY_SOURCE : message->comm->rank[message->from];
    const int tag = message->any_tag ? MPI_ANY_TAG : message->tag;
    MPI_Comm comm = message->comm->comm;
    MPI_Request request;
    MPI_Message found;
    int flag = 0;
    switch (receive_kind_of(message)) {
    case RECEIVE_INIT:
        if (!side->persistent)
            TRY(MPI_Recv_init(memory->base, memory->count, memory->type, source, tag, comm,
                              &side->request));
        side->persistent = true;
        TRY(MPI_Start(&side->request));
        add_request(side, side->request);
        return;
    case RECEIVE_RECV:
        TRY(MPI_Recv(memory->base, memory->count, memory->type, source, tag, comm, &side->status));
        break;
    case RECEIVE_PROBE:
        TRY(MPI_Probe(source, tag, comm, &side->status));
        TRY(MPI_Recv(memory->base, memory->count, memory->type, side->status.MPI_SOURCE,
                     side->status.MPI_TAG, comm, &side->status));
        break;
    case RECEIVE_IPROBE:
        while (!flag)
            TRY(MPI_Iprobe(source, tag, comm, &flag, &side->status));
        TRY(MPI_Recv(memory->base, memory->count, memory->type, side->status.MPI_SOURCE,
                     side->status.MPI_TAG, comm, MPI_STATUS_IGNORE));
        break;
    case RECEIVE_MPROBE:
        TRY(MPI_Mprobe(source, tag, comm, &found, &side->status));
        TRY(MPI_Mrecv(memory->base, memory->count, memory->type, &found, &side->status));
        break;
    case RECEIVE_IMPROBE:
        while (!flag)
            TRY(MPI_Improbe(source, tag, comm, &flag, &found, &side->status));
        TRY(MPI_Imrecv(memory->base, memory->count, memory->type, &found, &request));
        add_request(side, request);
        return;
    default:
        TRY(MPI_Irecv(memory->base, memory->count, memory->type, source, tag, comm, &request));
        add_request(side, request);
        return;
    }
    side->done = true;
}

static void start_persistent_send(struct side *side, int to, MPI_Comm comm)
{
    int (*const init[])(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *) = {
        [SEND_INIT] = MPI_Send_init,
        [SEND_SSEND_INIT] = MPI_Ssend_init,
        [SEND_BSEND_INIT] = MPI_Bsend_init,
        [SEND_RSEND_INIT] = MPI_Rsend_init,
    };
    const struct memory *memory = &side->memory;
    if (!side->persistent)
        TRY(init[side->message->send](memory->base, memory->count, memory->type, to,
                                      side->message->tag, comm, &side->request));
    side->persistent = true;
    if (roll(&play_dice, 2))
        TRY(MPI_Start(&side->request));
    else
        TRY(MPI_Startall(1, &side->request));
    add_request(side, side->request);
}

static void start_send(struct side *side)
{
    int (*const blocking[])(const void *, int, MPI_Datatype, int, int, MPI_Comm) = {
        [SEND_BSEND] = MPI_Bsend,
        [SEND_SEND] = MPI_Send,
        [SEND_SSEND] = MPI_Ssend,
        [SEND_RSEND] = MPI_Rsend,
    };
    int (*const nonblocking[])(const void *, int, MPI_Datatype, int, int, MPI_Comm,
                               MPI_Request *) = {
        [SEND_ISEND] = MPI_Isend,   [SEND_ISSEND] = MPI_Issend,    [SEND_IBSEND] = MPI_Ibsend,
        [SEND_IRSEND] = MPI_Irsend, [SEND_ISEND_FREE] = MPI_Isend,
    };
    const struct message *message = side->message;
    const struct memory *memory = &side->memory;
    const int to = message->comm->rank[message->to];
    MPI_Request request;
    switch (message->send) {
    case SEND_BSEND:
    case SEND_SEND:
    case SEND_SSEND:
    case SEND_RSEND:
        TRY(blocking[message->send](memory->base, memory->count, memory->type, to, message->tag,
                                    message->comm->comm));
        side->done = true;
        return;
    case SEND_INIT:
    case SEND_SSEND_INIT:
    case SEND_BSEND_INIT:
    case SEND_RSEND_INIT:
        start_persistent_send(side, to, message->comm->comm);
        return;
    default:
        TRY(nonblocking[message->send](memory->base, memory->count, memory->type, to, message->tag,
                                       message->comm->comm, &request));
    }
    if (message->send == SEND_ISEND_FREE) {
        TRY(MPI_Request_free(&request));
        side->done = true;
    } else {
        add_request(side, request);
    }
}

/* ---- completion ---- */

static void check_empty(const MPI_Status *status)
{
    int bytes = -1;
    MPI_Get_count(status, MPI_BYTE, &bytes);
    if (status->MPI_SOURCE != MPI_ANY_SOURCE || status->MPI_TAG != MPI_ANY_TAG || bytes != 0)
        wrong("a null request has a status", bytes);
}

static void take(int index, const MPI_Status *status)
{
    struct side *side = play.owners[index];
    if (!side)
        check_empty(status);
    if (side && side->done)
        wrong("completed twice", side->message->number);
    complete(side, status);
    if (side && side->persistent) /* inactive from now on */
        play.owners[index] = NULL;
}

static void take_all(const MPI_Status *statuses)
{
    for (int i = 0; i < play.request_count; i++)
        take(i, &statuses[i]);
}

static int open_count(void)
{
    int open = 0;
    for (int i = 0; i < play.request_count; i++)
        open += play.owners[i] && !play.owners[i]->done;
    return open;
}

static void complete_any(bool test)
{
    MPI_Status status;
    for (int open = open_count(); open > 0;) {
        int index = MPI_UNDEFINED, flag = 0;
        if (test)
            TRY(MPI_Testany(play.request_count, play.requests, &index, &flag, &status));
        else
            TRY(MPI_Waitany(play.request_count, play.requests, &index, &status));
        if (!test && index == MPI_UNDEFINED)
            fail("MPI_Waitany() says that no request is active", MPI_SUCCESS);
        if (index == MPI_UNDEFINED)
            continue;
        take(index, &status);
        open--;
    }
}

static void complete_some(bool test)
{
    static int indices[REQUESTS_MAX];
    static MPI_Status statuses[REQUESTS_MAX];
    for (int open = open_count(); open > 0;) {
        int found = 0;
        if (test)
            TRY(MPI_Testsome(play.request_count, play.requests, &found, indices, statuses));
        else
            TRY(MPI_Waitsome(play.request_count, play.requests, &found, indices, statuses));
        if (found == MPI_UNDEFINED || (!test && found == 0))
            fail("MPI_Waitsome() or MPI_Testsome() says that no request is active", MPI_SUCCESS);
        for (int i = 0; i < found; i++)
            take(indices[i], &statuses[i]);
        open -= found;
    }
}

static void complete_each(bool test)
{
    MPI_Status status;
    for (int i = play.request_count; i-- > 0;) {
        int flag = 0;
        if (roll(&play_dice, 4) == 0) {
            TRY(MPI_Request_get_status(play.requests[i], &flag, &status));
            flag = 0;
        }
        if (!test)
            TRY(MPI_Wait(&play.requests[i], &status));
        while (test && !flag)
            TRY(MPI_Test(&play.requests[i], &flag, &status));
        take(i, &status);
    }
}

static void complete_requests(void)
{
    static MPI_Status statuses[REQUESTS_MAX];
    int flag = 0;
    switch ((play.scene->completion + rank) % 8) {
    case 0:
        complete_any(false);
        break;
    case 1:
        complete_any(true);
        break;
    case 2:
        complete_some(false);
        break;
    case 3:
        complete_some(true);
        break;
    case 4:
        complete_each(false);
        break;
    case 5:
        complete_each(true);
        break;
    case 6:
        while (!flag)
            TRY(MPI_Testall(play.request_count, play.requests, &flag, statuses));
        take_all(statuses);
        break;
    default:
        TRY(MPI_Waitall(play.request_count, play.requests, statuses));
        take_all(statuses);
    }
}

/* In any order, with null requests between them. */
static void shuffle_requests(void)
{
    while (play.request_count < REQUESTS_MAX && roll(&play_dice, 3) == 0)
        add_request(NULL, MPI_REQUEST_NULL);
    for (int i = play.request_count - 1; i > 0; i--) {
        int j = roll(&play_dice, i + 1);
        MPI_Request request = play.requests[i];
        struct side *owner = play.owners[i];
        play.requests[i] = play.requests[j];
        play.owners[i] = play.owners[j];
        play.requests[j] = request;
        play.owners[j] = owner;
    }
}

/* ---- a scene ---- */

static void add_side(const struct message *message, bool sends)
{
    struct side *side = &play.sides[play.side_count++];
    *side =
        (struct side){.message = message, .sends = sends, .memory = memory_of(message, sends, 0)};
}

static void start_sides(bool sends, int repetition)
{
    for (int i = 0; i < play.side_count; i++) {
        struct side *side = &play.sides[i];
        if (side->sends != sends)
            continue;
        side->done = false;
        uint64_t number = side->message->pool && !sends ? 5000 : (uint64_t)side->message->number;
        memory_fill(&side->memory, mix(mix(play_seed, number), (uint64_t)(2 * repetition + sends)));
        (sends ? start_send : start_receive)(side);
        if (side->message->free_type && repetition == play.scene->repetitions - 1)
            memory_forget_type(&side->memory);
    }
}

static void play_once(int repetition)
{
    const struct scene *scene = play.scene;
    play.request_count = 0;
    if (scene->early) {
        start_sides(false, repetition);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    start_sides(true, repetition);
    if (scene->collective) {
        int sum = 0;
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        add_digest("sum", 0, (uint64_t)sum);
    }
    if (!scene->early)
        start_sides(false, repetition);
    shuffle_requests();
    complete_requests();
    for (int i = 0; i < play.side_count; i++) {
        struct side *side = &play.sides[i];
        if (!side->done)
            wrong("not complete", side->message->number);
        else if (!side->sends)
            check(side, repetition), received(side);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

void play_messages(struct dice *plan)
{
    static struct scene scene;
    draw_scene(plan, &scene);
    play.scene = &scene;
    play.side_count = 0;
    memset(play.taken, 0, sizeof(play.taken));
    for (int i = 0; i < scene.message_count; i++) {
        if (scene.messages[i].to == rank)
            add_side(&scene.messages[i], false);
        if (scene.messages[i].from == rank)
            add_side(&scene.messages[i], true);
    }
    for (int i = 0; i < scene.repetitions; i++)
        play_once(i);
    for (int i = 0; i < play.side_count; i++) {
        if (play.sides[i].persistent)
            TRY(MPI_Request_free(&play.sides[i].request));
        memory_deinit(&play.sides[i].memory);
    }
}
