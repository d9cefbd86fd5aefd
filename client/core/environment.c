#include "client/core/environment.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/core/error.h"
#include "client/include/tca-admin.h"
#include "config/guess.h"
#include "proto/segment.h"

/* Defaults are parsed like values. */
static const struct tca_variable variables[VARIABLE_COUNT + 1] = {
    [VARIABLE_SOCKET] = {"TCA_SOCKET", "", "socket of the tcad to use"},
    [VARIABLE_NODE] =
        {"TCA_NODE", "",
         "number of the emulated node to use (tca-cluster), if TCA_SOCKET is not set"},
    [VARIABLE_CLUSTER_DIR] = {"TCA_CLUSTER_DIR",
                              "$XDG_RUNTIME_DIR/tca-cluster, else /tmp/tca-cluster-UID",
                              "directory of the cluster of tca-cluster"},
    [VARIABLE_GROUP] = {"TCA_GROUP", "the launcher's job", "name of the group, NAME or NAME@NODE"},
    [VARIABLE_RANK] = {"TCA_RANK", "the launcher's rank", "rank of this process in its group"},
    [VARIABLE_SIZE] = {"TCA_SIZE", "the launcher's size, else 1",
                       "number of processes in the group"},
    [VARIABLE_TIMEOUT] = {"TCA_TIMEOUT", "10s",
                          "time-out of calls that talk to daemons, with a unit: ns, us, ms, s"},
    [VARIABLE_HANG] = {"TCA_HANG", "0",
                       "how long a wait lasts before it says on standard error what it waits for, "
                       "with a unit: ms, s; 0: never"},
    [VARIABLE_RAIL] = {"TCA_RAIL", "any",
                       "rail of plans that request none: any, a rail (tcactl status), or a driver: "
                       "shm, tcp, hca, ofi, peach2"},
    [VARIABLE_SEAT] = {"TCA_SEAT", "any", "seat of plans that request none: any, client, daemon"},
    [VARIABLE_COPY] = {"TCA_COPY", "any",
                       "copy mode in the client's seat: any, push, pull, half, ring"},
    [VARIABLE_TUNE] = {"TCA_TUNE", "on",
                       "whether plans try copy modes, rails and seats, and keep the fastest: on, "
                       "off, frozen (use "
                       "earlier results only)"},
    [VARIABLE_WISDOM] = {"TCA_WISDOM", "$XDG_CACHE_HOME/tca/wisdom, else ~/.cache/tca/wisdom",
                         "file with the results of such trials; none: no file"},
    [VARIABLE_SPIN] = {"TCA_SPIN", "50us",
                       "maximum time that a wait spins, with a unit: ns, us, ms"},
    [VARIABLE_YIELD] = {"TCA_YIELD", "1ms",
                        "time that it then yields before it sleeps, with a unit: ns, us, ms"},
    [VARIABLE_CUDA] = {"TCA_CUDA", "auto",
                       "whether tcaMemoryGPU of the TCA API is GPU memory: auto, on, off"},
    [VARIABLE_HOSTD] = {"TCA_HOSTD", "", "socket of the tca-hostd to use"},
    [VARIABLE_MPI] = {"TCA_MPI", "on", "whether tca-mpi carries messages of MPI programs: on, off"},
    [VARIABLE_MPI_COLL] = {"TCA_MPI_COLL", "0",
                           "1: tca-mpi carries collective operations of MPI programs, too"},
    [VARIABLE_MPI_REPORT] = {"TCA_MPI_REPORT", "0",
                             "1: tca-mpi prints at MPI_Finalize() which messages it has carried"},
};

const struct tca_variable *tca_variables(void)
{
    return variables;
}

/* Those of the test suite. */
static bool is_ours(const char *name)
{
    return strncmp(name, "TCA_TEST_", 9) == 0 || strncmp(name, "TCA_VM_", 7) == 0;
}

static bool is_known(const char *name)
{
    for (const struct tca_variable *v = variables; v->name; v++)
        if (strcmp(name, v->name) == 0)
            return true;
    return false;
}

/* Without the common prefix, which would make all names similar. */
static const char *similar_to(const char *name)
{
    struct config_guess guess;
    config_guess_init(&guess, name + 4);
    for (const struct tca_variable *v = variables; v->name; v++)
        config_guess_try(&guess, v->name + 4);
    return guess.best ? guess.best - 4 : NULL;
}

void tca_variables_unknown(void (*found)(void *context, const char *name, const char *similar),
                           void *context)
{
    for (char **at = environ; at && *at; at++) {
        char name[64];
        const size_t bytes = strcspn(*at, "=");
        if (strncmp(*at, "TCA_", 4) != 0 || bytes >= sizeof(name))
            continue;
        memcpy(name, *at, bytes);
        name[bytes] = '\0';
        if (!is_known(name) && !is_ours(name))
            found(context, name, similar_to(name));
    }
}

static void warn(void *context, const char *name, const char *similar)
{
    (void)context;
    if (similar)
        fprintf(stderr, "libtca: there is no variable %s: did you mean %s?\n", name, similar);
    else
        fprintf(stderr, "libtca: there is no variable %s: tcactl env lists all that there are\n",
                name);
}

void environment_warn(void)
{
    static atomic_flag warned = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set_explicit(&warned, memory_order_relaxed))
        tca_variables_unknown(warn, NULL);
}

const char *variable_text(enum variable variable)
{
    const char *text = getenv(variables[variable].name);
    return text && text[0] ? text : NULL;
}

/* Parses the digits at *text and advances *text past them. False: no digits, or more than max. */
static bool parse_digits(const char **text, uint64_t max, uint64_t *ret_number)
{
    uint64_t number = 0;
    const char *digit = *text;
    for (; *digit >= '0' && *digit <= '9'; digit++) {
        uint64_t value = (uint64_t)(*digit - '0');
        if (number > (max - value) / 10)
            return false;
        number = number * 10 + value;
    }
    if (digit == *text)
        return false;
    *text = digit;
    *ret_number = number;
    return true;
}

int variable_number(enum variable variable, uint64_t min, uint64_t max, uint64_t *ret_number)
{
    const char *text = variable_text(variable);
    const char *rest = text;
    uint64_t number;
    if (!text)
        return 0;
    if (!parse_digits(&rest, max, &number) || *rest || number < min)
        return error_set(-EINVAL, "%s is \"%s\": it must be a number from %llu to %llu",
                         variables[variable].name, text, (unsigned long long)min,
                         (unsigned long long)max);
    *ret_number = number;
    return 1;
}

/* Nanoseconds of a unit; 0: not a unit. Bare numbers are refused, because their unit would depend
 * on the variable. */
static uint64_t parse_unit(const char *text)
{
    static const struct {
        const char *name;
        uint64_t ns;
    } units[] = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};

    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (strcmp(text, units[i].name) == 0)
            return units[i].ns;
    return 0;
}

int variable_duration(enum variable variable, uint64_t min_ns, uint64_t max_ns, uint64_t *ret_ns)
{
    const char *text = variable_text(variable);
    if (!text)
        text = variables[variable].default_value;
    const char *rest = text;
    uint64_t number, factor;
    const bool is_number = parse_digits(&rest, max_ns, &number);
    if (is_number && number == 0 && !*rest)
        rest = "ns";
    if (is_number && (factor = parse_unit(rest)) > 0 && number <= max_ns / factor &&
        number * factor >= min_ns) {
        *ret_ns = number * factor;
        return 0;
    }
    if (is_number && !*rest)
        return error_set(-EINVAL, "%s is \"%s\": add a unit (ns, us, ms or s), as in %s",
                         variables[variable].name, text, variables[variable].default_value);
    return error_set(-EINVAL, "%s is \"%s\": it must be a time from %lluns to %llus, such as %s",
                     variables[variable].name, text, (unsigned long long)min_ns,
                     (unsigned long long)(max_ns / 1000000000), variables[variable].default_value);
}

/* rails_check() checks the name when the rails are known. */
static int parse_rail(char ret_rail[static RAIL_NAME_MAX_BYTES])
{
    const char *text = variable_text(VARIABLE_RAIL);
    const bool any = !text || strcmp(text, "any") == 0;
    if (!any && strlen(text) >= RAIL_NAME_MAX_BYTES)
        return error_set(-EINVAL, "TCA_RAIL is \"%s\": a rail's name has at most %d bytes", text,
                         RAIL_NAME_MAX_BYTES - 1);
    strcpy(ret_rail, any ? "" : text);
    return 0;
}

static int parse_seat(enum tca_seat *ret_seat)
{
    const char *text = variable_text(VARIABLE_SEAT);
    enum tca_seat seat = TCA_SEAT_ANY;
    if (text && strcmp(text, "any") != 0) {
        seat = (enum tca_seat)seat_from_name(text);
        if (seat != TCA_SEAT_CLIENT && seat != TCA_SEAT_DAEMON)
            return error_set(-EINVAL, "TCA_SEAT is \"%s\": it must be any, client or daemon", text);
    }
    *ret_seat = seat;
    return 0;
}

static int parse_copy_method(enum copy_method *ret_method)
{
    const char *text = variable_text(VARIABLE_COPY);
    enum copy_method method = COPY_NONE;
    if (text && strcmp(text, "any") != 0) {
        method = copy_method_from_name(text);
        if (method == COPY_NONE)
            return error_set(-EINVAL,
                             "TCA_COPY is \"%s\": it must be any, push, pull, half or ring", text);
    }
    *ret_method = method;
    return 0;
}

static int parse_tune(enum tune_setting *ret_tune)
{
    static const char *const names[] = {
        [TUNE_OFF] = "off", [TUNE_FROZEN] = "frozen", [TUNE_ON] = "on"};
    const char *text = variable_text(VARIABLE_TUNE);
    int tune = TUNE_ON;
    while (text && tune >= 0 && strcmp(text, names[tune]) != 0)
        tune--;
    if (tune < 0)
        return error_set(-EINVAL, "TCA_TUNE is \"%s\": it must be on, off or frozen", text);
    *ret_tune = (enum tune_setting)tune;
    return 0;
}

int environment_settings(struct settings *ret_settings)
{
    const uint64_t second_ns = 1000000000;
    struct settings settings;
    uint64_t timeout_ns, spin_ns, yield_ns;
    int r;

    if ((r = variable_duration(VARIABLE_TIMEOUT, 1, 1000000 * second_ns, &timeout_ns)) < 0 ||
        (r = variable_duration(VARIABLE_HANG, 0, 1000000 * second_ns, &settings.hang_ns)) < 0 ||
        (r = variable_duration(VARIABLE_SPIN, 0, SPIN_NS_MOST, &spin_ns)) < 0 ||
        (r = variable_duration(VARIABLE_YIELD, 0, SPIN_NS_MOST, &yield_ns)) < 0 ||
        (r = parse_rail(settings.rail)) < 0 || (r = parse_seat(&settings.seat)) < 0 ||
        (r = parse_copy_method(&settings.copy_method)) < 0 || (r = parse_tune(&settings.tune)) < 0)
        return r;
    settings.timeout_ns = (int64_t)timeout_ns;
    if (settings.hang_ns == 0)
        settings.hang_ns = UINT64_MAX;
    settings.spin_ns = (uint32_t)spin_ns;
    settings.yield_ns = (uint32_t)yield_ns;
    *ret_settings = settings;
    return 0;
}
