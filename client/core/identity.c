#include "client/core/identity.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/core/environment.h"
#include "client/core/error.h"
#include "client/core/hydra.h"
#include "client/core/launcher.h"

static int read_number(const struct launcher *launcher, const char *name, uint32_t max,
                       uint32_t *ret_number)
{
    const char *text = launcher_variable(name);
    char *end;
    unsigned long number = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || number > max)
        return error_set(-EINVAL,
                         "%s is \"%s\": %s must set it to a number from 0 to %u; set TCA_GROUP, "
                         "TCA_RANK and TCA_SIZE",
                         name, text, launcher->title, max);
    *ret_number = (uint32_t)number;
    return 0;
}

static int name_job(const struct launcher *launcher, char ret_name[NAME_MAX_BYTES])
{
    if (!launcher->job[0]) {
        hydra_job_name(launcher_variable(launcher->size), ret_name);
        return 0;
    }
    const char *first = launcher_variable(launcher->job[0]);
    const char *second = launcher->job[1] ? launcher_variable(launcher->job[1]) : "";
    if (!first || !second)
        return error_set(-EINVAL, "%s sets a rank but not %s: set TCA_GROUP", launcher->title,
                         first ? launcher->job[1] : launcher->job[0]);
    int length = snprintf(ret_name, NAME_MAX_BYTES, "%s%s%s", first, second[0] ? "." : "", second);
    if (length < 0 || length >= NAME_MAX_BYTES || strchr(ret_name, '@'))
        return error_set(
            -EINVAL,
            "%s names its job \"%s\", which is not a valid group name (at most 63 bytes, without "
            "@): set TCA_GROUP",
            launcher->title, first);
    return 0;
}

static int copy_group(const char *name, const char *from, char ret_group[NAME_MAX_BYTES])
{
    size_t length = strlen(name);
    if (length >= NAME_MAX_BYTES || name[0] == '@')
        return error_set(
            -EINVAL,
            "%s \"%s\" has %zu bytes: a group name has at most %d, at least one of them before "
            "@NODE",
            from, name, length, NAME_MAX_BYTES - 1);
    memcpy(ret_group, name, length + 1);
    return 0;
}

/* Launchers that do not say what is needed: without these errors, each process would be a group of
 * one. */
static int check_launcher(const struct launcher *launcher)
{
    const struct launcher *poor = launcher ? NULL : launcher_without_size();
    const char *components =
        launcher && launcher->components ? launcher_variable(launcher->components) : NULL;
    if (poor)
        return error_set(-EINVAL,
                         "%s has started this process (%s is %s) but does not set %s: set "
                         "TCA_GROUP, TCA_RANK and TCA_SIZE",
                         poor->title, poor->rank, launcher_variable(poor->rank), poor->size);
    if (components && strcmp(components, "1") != 0)
        return error_set(-EINVAL,
                         "this is a heterogeneous job of %s (%s is %s), whose variables do not say "
                         "how many ranks all components have together: set TCA_GROUP, TCA_RANK and "
                         "TCA_SIZE",
                         launcher->title, launcher->components, components);
    return 0;
}

/* Takes group, rank and size each from TCA_*, else from the launcher. */
static int from_environment(struct identity *ret_identity)
{
    const struct launcher *launcher = launcher_find();
    struct identity identity = {.size = 1};
    uint64_t rank = 0, size = 0;
    int r, have_rank, have_size;

    if ((have_size = variable_number(VARIABLE_SIZE, 1, GROUP_SIZE_MAX, &size)) < 0)
        return have_size;
    if ((have_rank = variable_number(VARIABLE_RANK, 0, GROUP_SIZE_MAX - 1, &rank)) < 0)
        return have_rank;
    const char *group = variable_text(VARIABLE_GROUP);
    if (!(have_size && have_rank && group) && (r = check_launcher(launcher)) < 0)
        return r;
    if (have_size)
        identity.size = (uint32_t)size;
    else if (launcher &&
             (r = read_number(launcher, launcher->size, GROUP_SIZE_MAX, &identity.size)) < 0)
        return r;
    if (have_rank)
        identity.rank = (uint32_t)rank;
    else if (launcher &&
             (r = read_number(launcher, launcher->rank, GROUP_SIZE_MAX, &identity.rank)) < 0)
        return r;
    if (!launcher && have_rank + have_size + (group != NULL) != 0 &&
        have_rank + have_size + (group != NULL) != 3)
        return error_set(-EINVAL,
                         "%s is set, %s is not: without a launcher, set all of TCA_GROUP, TCA_RANK "
                         "and TCA_SIZE",
                         group       ? "TCA_GROUP"
                         : have_rank ? "TCA_RANK"
                                     : "TCA_SIZE",
                         !group       ? "TCA_GROUP"
                         : !have_rank ? "TCA_RANK"
                                      : "TCA_SIZE");
    if (group)
        r = copy_group(group, "TCA_GROUP", identity.group);
    else
        r = launcher ? name_job(launcher, identity.group) : 0;
    if (r < 0)
        return r;
    if (launcher && !have_size && !have_rank)
        identity.local_size = launcher_local_size(launcher);
    *ret_identity = identity;
    return 0;
}

/* Rank and size from the arguments; the name may still come from the environment. */
static int from_arguments(const struct tca_open_args *args, struct identity *ret_identity)
{
    const struct launcher *launcher = launcher_find();
    const char *group = args->group ? args->group : variable_text(VARIABLE_GROUP);
    struct identity identity = {.rank = args->rank, .size = args->size};
    int r = 0;
    if (group)
        r = copy_group(group, args->group ? "group" : "TCA_GROUP", identity.group);
    else if (args->size > 1)
        r = launcher ? name_job(launcher, identity.group)
                     : error_set(-EINVAL, "a group of %u needs a name: pass one, or set TCA_GROUP",
                                 args->size);
    if (r < 0)
        return r;
    *ret_identity = identity;
    return 0;
}

int identity_find(const struct tca_open_args *args, struct identity *ret_identity)
{
    struct identity identity;
    if (args->size == 0 && (args->group || args->rank != 0))
        return error_set(-EINVAL,
                         "a group or rank was passed without a size: pass all three or none");
    int r = args->size > 0 ? from_arguments(args, &identity) : from_environment(&identity);
    if (r < 0)
        return r;
    if (identity.size == 0 || identity.size > GROUP_SIZE_MAX)
        return error_set(-EINVAL, "group size %u: it must be from 1 to %d", identity.size,
                         GROUP_SIZE_MAX);
    if (identity.rank >= identity.size)
        return error_set(-EINVAL, "rank %u in a group of %u: ranks go from 0 to %u", identity.rank,
                         identity.size, identity.size - 1);
    *ret_identity = identity;
    return 0;
}
