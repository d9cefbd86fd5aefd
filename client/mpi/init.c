/* The beginning and the end: whether tcad carries the messages of MPI_COMM_WORLD. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "client/mpi/collective.h"
#include "client/mpi/request.h"

struct shim shim = {.lock = PTHREAD_MUTEX_INITIALIZER};
static bool reports; /* as rank 0 was asked to */

enum { WHY_BYTES = 512 };

#ifdef OPEN_MPI
#define MPI_SAYS "Open MPI v4."
#else
#define MPI_SAYS "MPICH Version:"
#endif

/* The ranks agree: true if none has a reason against it. Otherwise rank 0 says the first one's, but
 * an empty one is what the user has asked for. */
static bool agree(const char *why)
{
    char text[WHY_BYTES];
    int mine = why ? shim.rank : shim.size, first = 0;

    next.Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (first == shim.size)
        return true;
    snprintf(text, sizeof(text), "%s", why ? why : "");
    next.Bcast(text, sizeof(text), MPI_CHAR, first, MPI_COMM_WORLD);
    if (shim.rank == 0 && *text)
        fprintf(stderr, "tca-mpi: the program runs with its MPI alone: rank %d: %s\n", first, text);
    return false;
}

#ifdef OPEN_MPI
/* Whether the MPI keeps the number of a request in Fortran where we do, too. */
static bool numbers_fit(void)
{
    MPI_Request request;
    MPI_Fint number, there;

    if (next.Recv_init(NULL, 0, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_SELF, &request) != MPI_SUCCESS)
        return false;
    number = next.Request_c2f(request);
    memcpy(&there, (const char *)request + REQUEST_NUMBER_OFFSET, sizeof(there));
    next.Request_free(&request);
    return there == number;
}
#endif

/* A reason that this rank knows by itself; NULL: none. */
static const char *own_reason(void)
{
    static char said[MPI_MAX_LIBRARY_VERSION_STRING + 100];
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    const char *wish = getenv("TCA_MPI");
    int length;

    if (wish && strcmp(wish, "off") == 0)
        return "";
    next.Get_library_version(version, &length);
    if (strncmp(version, MPI_SAYS, strlen(MPI_SAYS)) != 0) {
        snprintf(said, sizeof(said), "the MPI is \"%.60s\", not \"" MPI_SAYS "\"", version);
        return said;
    }
#ifdef OPEN_MPI
    if (!numbers_fit())
        return "Open MPI's requests are not as in Open MPI 4.1";
#endif
    return NULL;
}

/* Opens the session, or a group of one to find out whether that is possible here: in time, because
 * then nobody has to wait for others. */
static const char *open_session(uint64_t number, int rank, int size, struct tca **ret_session)
{
    char group[40];
    struct tca_open_args args = {.group = group, .rank = rank, .size = size};

    snprintf(group, sizeof(group), "tca-mpi-%016llx", (unsigned long long)number);
    return tca_open(&args, ret_session) < 0 ? tca_error_text() : NULL;
}

static uint64_t random_number(void)
{
    uint64_t number;

    return getrandom(&number, sizeof(number), 0) == sizeof(number) ? number : 0;
}

static void leave(void)
{
    shim.msg = tca_msg_free(shim.msg);
    shim.session = tca_close(shim.session);
    requests_deinit();
}

/* What rank 0 chooses. */
struct choice {
    uint64_t number; /* of the group */
    uint64_t reports, collectives;
};

static bool is_on(const char *variable)
{
    const char *wish = getenv(variable);

    return wish && strcmp(wish, "1") == 0;
}

static bool open_together(void)
{
    struct choice choice = {random_number(), is_on("TCA_MPI_REPORT"), is_on("TCA_MPI_COLL")};

    next.Bcast(&choice, sizeof(choice) / sizeof(uint64_t), MPI_UINT64_T, 0, MPI_COMM_WORLD);
    reports = choice.reports;
    shim.collectives = choice.collectives;
    return agree(open_session(choice.number, shim.rank, shim.size, &shim.session)) &&
           agree(tca_msg_new(shim.session, NULL, &shim.msg) < 0 ? tca_error_text()
                 : requests_init() < 0                          ? "no address space left"
                                                                : NULL);
}

/* From here on. */
static void activate(int provided)
{
    void *tag_max;
    int flag;

    next.Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &tag_max, &flag);
    shim.tag_max = flag ? *(int *)tag_max : 32767;
    shim.threaded = provided == MPI_THREAD_MULTIPLE;
    communicators_init();
    shim.active = true;
}

static void begin(int provided)
{
    struct tca *alone = NULL;
    const char *why;

    next.Comm_rank(MPI_COMM_WORLD, &shim.rank);
    next.Comm_size(MPI_COMM_WORLD, &shim.size);
    if (shim.size == 1)
        return;
    why = own_reason();
    if (!why)
        why = progress_open();
    if (!why)
        why = open_session(random_number(), 0, 1, &alone);
    if (!agree(why)) {
        tca_close(alone);
        return;
    }
    tca_close(alone);
    if (open_together())
        activate(provided);
    else
        leave();
}

int MPI_Init(int *argc, char ***argv)
{
    int provided, r = next.Init(argc, argv);

    if (r == MPI_SUCCESS) {
        next.Query_thread(&provided);
        begin(provided);
    }
    return r;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    int r = next.Init_thread(argc, argv, required, provided);

    if (r == MPI_SUCCESS)
        begin(*provided);
    return r;
}

int MPI_Type_free(MPI_Datatype *type)
{
    if (shim.active && type) {
        shim_lock();
        datatype_freed(*type);
        shim_unlock();
    }
    return next.Type_free(type);
}

int MPI_Finalize(void)
{
    if (shim.active) {
        next.Barrier(MPI_COMM_WORLD); /* what others still wait for goes on meanwhile */
        if (reports)
            report_print();
        shim.active = false;
        communicators_deinit();
        collectives_deinit();
        datatype_deinit();
        leave();
    }
    return next.Finalize();
}
