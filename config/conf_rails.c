#include "config/conf_rails.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config/conf_internal.h"
#include "config/guess.h"
#include "config/text.h"
#include "config/value.h"

struct conf_rail_entry {
    char *name, *value;
    unsigned line;
};

enum {
    IP = CONF_RAIL_TCP | CONF_RAIL_OFI,
    NETWORK = IP | CONF_RAIL_HCA,
    ANY = NETWORK | CONF_RAIL_PEACH2,
};

static const struct config_choice drivers[] = {{"tcp", CONF_RAIL_TCP},
                                               {"hca", CONF_RAIL_HCA},
                                               {"ofi", CONF_RAIL_OFI},
                                               {"peach2", CONF_RAIL_PEACH2},
                                               {0}};
static const struct config_choice security[] = {
    {"tls", CONF_SECURITY_TLS}, {"plain", CONF_SECURITY_PLAIN}, {0}};
static const struct config_choice kernel_tls[] = {{"auto", true}, {"no", false}, {0}};
static const struct config_choice no_yes[] = {{"no", false}, {"yes", true}, {0}};

#define KEY(n) .section = "rail", .name = #n, .offset = offsetof(struct conf_rail, n)

static const struct {
    uint32_t drivers; /* that have the key */
    struct config_key key;
} keys[] = {
    {ANY, {KEY(driver), .type = CONFIG_CHOICE, .choices = drivers}},
    {ANY, {KEY(plane), .type = CONFIG_WORD, .optional = true}},
    {NETWORK, {KEY(address), .type = CONFIG_WORD, .optional = true}},
    {NETWORK, {KEY(port), .type = CONFIG_NUMBER, .max = UINT16_MAX, .initial = "0"}},
    {CONF_RAIL_TCP, {KEY(security), .type = CONFIG_CHOICE, .choices = security, .initial = "tls"}},
    {CONF_RAIL_TCP,
     {KEY(kernel_tls), .type = CONFIG_CHOICE, .choices = kernel_tls, .initial = "auto"}},
    {CONF_RAIL_HCA, {KEY(device), .type = CONFIG_WORD, .optional = true}},
    {CONF_RAIL_OFI, {KEY(provider), .type = CONFIG_WORD, .optional = true, .initial = "tcp"}},
    {CONF_RAIL_OFI, {KEY(unprotected), .type = CONFIG_CHOICE, .choices = no_yes, .initial = "no"}},
    {CONF_RAIL_PEACH2, {KEY(board), .type = CONFIG_PATH}},
    {CONF_RAIL_PEACH2, {KEY(rings), .type = CONFIG_NUMBER, .max = 2, .initial = "0"}},
    {CONF_RAIL_PEACH2,
     {KEY(window), .type = CONFIG_BYTES, .min = 16 << 20, .max = 512ull << 30, .initial = "512G"}},
};
enum { KEYS = sizeof(keys) / sizeof(keys[0]) };

static const char *file_of(const struct tcad_conf *conf, unsigned line)
{
    return !line ? "command line" : conf->file ? conf->file : "defaults";
}

static void *field_of(struct conf_rail *rail, const struct config_key *key)
{
    return (char *)rail + key->offset;
}

static const char *driver_text(uint32_t driver)
{
    const struct config_choice *choice = drivers;
    while (choice->name && choice->value != driver)
        choice++;
    return choice->name ? choice->name : "shm";
}

/* ---- while the text is read ---- */

const char *conf_rail_named(const char *section)
{
    if (strncmp(section, "rail", 4) != 0 || !isspace((unsigned char)section[4]))
        return NULL;
    return section + 4 + strspn(section + 4, " \t");
}

/* NULL, or what is wrong with a name. */
static const char *check_name(const char *name)
{
    static const char *const taken[] = {"any", "shm", "tcp", "hca", "ofi", "peach2"};
    if (!*name || strlen(name) >= RAIL_NAME_MAX_BYTES)
        return "a rail's name has 1 to 31 characters";
    if (!isalnum((unsigned char)*name))
        return "a rail's name begins with a letter or digit";
    for (const char *p = name; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr(":;._-", *p))
            return "a rail's name has letters, digits, : ; . _ -";
    for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
        if (strcmp(name, taken[i]) == 0)
            return "that means any rail of the driver; add its device, as in ofi:tcp:eth0";
    return NULL;
}

int conf_rail_section(struct tcad_conf *conf, const char *name, unsigned line,
                      struct config_errors *errors, size_t *ret_index)
{
    const char *why = check_name(name);
    size_t i = 0;
    while (i < conf->rail_count && strcmp(conf->rail_list[i].name, name) != 0)
        i++;
    *ret_index = i;
    if (i < conf->rail_count)
        return 0;
    if (why)
        config_errors_add(errors, file_of(conf, line), line, "[rail %s]: %s", name, why);
    struct conf_rail *list = reallocarray(conf->rail_list, i + 1, sizeof(*list));
    if (!list)
        return -ENOMEM;
    conf->rail_list = list;
    list[i] = (struct conf_rail){.name = strdup(name), .line = line};
    if (!list[i].name)
        return -ENOMEM;
    conf->rail_count++;
    return 0;
}

static struct conf_rail_entry *find_entry(const struct conf_rail *rail, const char *name)
{
    for (size_t i = 0; i < rail->entry_count; i++)
        if (strcmp(rail->entries[i].name, name) == 0)
            return &rail->entries[i];
    return NULL;
}

int conf_rail_set(struct tcad_conf *conf, size_t index, const char *name, const char *value,
                  unsigned line, struct config_errors *errors)
{
    struct conf_rail *rail = &conf->rail_list[index];
    struct conf_rail_entry *entry = find_entry(rail, name);
    if (entry && line) {
        config_errors_add(errors, file_of(conf, line), line,
                          "[rail %s] %s was already set in line %u; remove one of them", rail->name,
                          name, entry->line);
        return 0;
    }
    struct conf_rail_entry fresh = {strdup(name), strdup(value), line};
    if (!entry && fresh.name && fresh.value) {
        struct conf_rail_entry *entries =
            reallocarray(rail->entries, rail->entry_count + 1, sizeof(*entries));
        if (entries) {
            rail->entries = entries;
            entry = &entries[rail->entry_count++];
            *entry = (struct conf_rail_entry){0};
        }
    }
    if (!entry || !fresh.name || !fresh.value) {
        free(fresh.name);
        free(fresh.value);
        return -ENOMEM;
    }
    free(entry->name);
    free(entry->value);
    *entry = fresh;
    return 0;
}

/* ---- afterwards ---- */

static int set_value(struct tcad_conf *conf, struct conf_rail *rail, const struct config_key *key,
                     const char *value, unsigned line, struct config_errors *errors)
{
    char why[512];
    int r = config_value_parse(key, value, field_of(rail, key), why, sizeof(why));
    if (r == -EINVAL)
        config_errors_add(errors, file_of(conf, line), line, "[rail %s] %s = %s: %s", rail->name,
                          key->name, value, why);
    return r == -EINVAL ? 0 : r;
}

static void report_unknown(const struct tcad_conf *conf, const struct conf_rail *rail,
                           const struct conf_rail_entry *entry, struct config_errors *errors)
{
    const char *file = file_of(conf, entry->line);
    struct config_guess guess;
    config_guess_init(&guess, entry->name);
    for (size_t i = 0; i < KEYS; i++) {
        if (strcmp(keys[i].key.name, entry->name) == 0) {
            config_errors_add(errors, file, entry->line,
                              "[rail %s] %s: driver %s has no such key; it belongs to driver %s",
                              rail->name, entry->name, driver_text(rail->driver),
                              keys[i].drivers == NETWORK ? "tcp, hca or ofi"
                                                         : driver_text(keys[i].drivers));
            return;
        }
        if (keys[i].drivers & rail->driver)
            config_guess_try(&guess, keys[i].key.name);
    }
    if (guess.best)
        config_errors_add(errors, file, entry->line,
                          "[rail %s] has no key \"%s\"; did you mean \"%s\"?", rail->name,
                          entry->name, guess.best);
    else
        config_errors_add(errors, file, entry->line,
                          "[rail %s] has no key \"%s\"; tcad.conf(5) lists them", rail->name,
                          entry->name);
}

static int set_defaults(struct tcad_conf *conf, struct conf_rail *rail,
                        struct config_errors *errors)
{
    const char *host = conf_rail_host(conf);
    size_t i = 0;
    int r = 0;
    for (const struct config_key *key; r == 0 && (key = conf_rail_key(rail, &i));)
        if (key->initial && !find_entry(rail, key->name))
            r = set_value(conf, rail, key, key->initial, rail->line, errors);
    if (rail->driver & IP && host && !find_entry(rail, "address") &&
        !(rail->address = strdup(host)))
        r = -ENOMEM;
    if (rail->driver == CONF_RAIL_PEACH2 && !rail->board &&
        !(rail->board = strdup(conf->rails.peach2_board)))
        r = -ENOMEM;
    return r;
}

/* First the driver, which decides about the other keys. */
static int complete_section(struct tcad_conf *conf, struct conf_rail *rail,
                            struct config_errors *errors)
{
    const size_t before = config_errors_total(errors);
    const struct conf_rail_entry *driver = find_entry(rail, "driver");
    if (!driver) {
        config_errors_add(errors, file_of(conf, rail->line), rail->line,
                          "[rail %s] has no driver; set driver = tcp, hca, ofi or peach2",
                          rail->name);
        return 0;
    }
    int r = set_value(conf, rail, &keys[0].key, driver->value, driver->line, errors);
    if (r < 0 || config_errors_total(errors) > before)
        return r;
    for (size_t i = 0; i < rail->entry_count && r == 0; i++) {
        const struct conf_rail_entry *entry = &rail->entries[i];
        const struct config_key *key;
        size_t next = 0;
        while ((key = conf_rail_key(rail, &next)) && strcmp(key->name, entry->name) != 0)
            ;
        if (key)
            r = set_value(conf, rail, key, entry->value, entry->line, errors);
        else
            report_unknown(conf, rail, entry, errors);
    }
    if (rail->plane && strlen(rail->plane) >= RAIL_NAME_MAX_BYTES)
        config_errors_add(errors, file_of(conf, find_entry(rail, "plane")->line),
                          find_entry(rail, "plane")->line,
                          "[rail %s] plane = %s: is longer than %d characters", rail->name,
                          rail->plane, RAIL_NAME_MAX_BYTES - 1);
    return r == 0 ? set_defaults(conf, rail, errors) : r;
}

static bool is_same(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* Rails of one node on one plane would be confused by the other nodes. */
static void check_planes(const struct tcad_conf *conf, const struct conf_rail *rail,
                         struct config_errors *errors)
{
    for (const struct conf_rail *other = conf->rail_list; other < rail; other++)
        if (other->driver == rail->driver && is_same(other->plane, rail->plane) &&
            (rail->plane || is_same(other->provider, rail->provider)))
            config_errors_add(
                errors, file_of(conf, rail->line), rail->line,
                "[rail %s] is on the same plane as %s%s; set plane in one of them, the same one on "
                "all nodes that it leads to",
                rail->name, other->name ? "rail " : "the rail of [rails], driver ",
                other->name ? other->name : driver_text(other->driver));
}

static int copy(char **to, const char *from)
{
    *to = from ? strdup(from) : NULL;
    return from && !*to ? -ENOMEM : 0;
}

static int short_form(const struct tcad_conf *conf, uint32_t driver, struct conf_rail *rail)
{
    int r = 0;
    *rail = (struct conf_rail){.driver = driver};
    if (driver == CONF_RAIL_TCP) {
        rail->port = conf->rails.tcp_port;
        rail->security = conf->rails.tcp_security;
        rail->kernel_tls = conf->rails.tcp_kernel_tls;
        r = copy(&rail->address, conf->rails.tcp_address);
    } else if (driver == CONF_RAIL_OFI) {
        rail->port = conf->rails.ofi_port;
        rail->unprotected = conf->rails.ofi_unprotected;
        r = copy(&rail->address, conf->rails.ofi_address);
        if (r == 0)
            r = copy(&rail->provider, conf->rails.ofi_provider);
    } else if (driver == CONF_RAIL_PEACH2) {
        rail->rings = conf->rails.peach2_rings;
        rail->window = conf->rails.peach2_window;
        r = copy(&rail->board, conf->rails.peach2_board);
    }
    return r;
}

int conf_rails_complete(struct tcad_conf *conf, struct config_errors *errors)
{
    static const uint32_t order[] = {CONF_RAIL_SHM, CONF_RAIL_PEACH2, CONF_RAIL_HCA, CONF_RAIL_TCP,
                                     CONF_RAIL_OFI};
    enum { ORDER = sizeof(order) / sizeof(order[0]) };
    struct conf_rail enabled[ORDER];
    size_t count = 0;
    int r = 0;
    for (size_t i = 0; i < conf->rail_count && r == 0; i++)
        r = complete_section(conf, &conf->rail_list[i], errors);
    for (size_t i = 0; i < ORDER && r == 0; i++)
        if (conf->rails.enable & order[i])
            r = short_form(conf, order[i], &enabled[count++]);
    struct conf_rail *list = reallocarray(conf->rail_list, conf->rail_count + count, sizeof(*list));
    if (list) {
        conf->rail_list = list;
        memmove(list + count, list, conf->rail_count * sizeof(*list));
        memcpy(list, enabled, count * sizeof(*list));
        conf->rail_count += count;
    } else {
        r = -ENOMEM;
    }
    for (size_t i = count; r == 0 && i < conf->rail_count; i++)
        check_planes(conf, &conf->rail_list[i], errors);
    if (r == 0 && conf->rail_count > RAILS_MAX)
        config_errors_add(errors, file_of(conf, 1), 0, "%zu rails: at most %d are possible",
                          conf->rail_count, RAILS_MAX);
    return r;
}

void conf_rails_free(struct tcad_conf *conf)
{
    for (size_t i = 0; i < conf->rail_count; i++) {
        struct conf_rail *rail = &conf->rail_list[i];
        for (size_t j = 0; j < rail->entry_count; j++) {
            free(rail->entries[j].name);
            free(rail->entries[j].value);
        }
        free(rail->entries);
        free(rail->name);
        free(rail->plane);
        free(rail->address);
        free(rail->device);
        free(rail->provider);
        free(rail->board);
    }
    free(conf->rail_list);
}

const struct config_key *conf_rail_key(const struct conf_rail *rail, size_t *index)
{
    while (*index < KEYS && !(keys[*index].drivers & rail->driver))
        ++*index;
    return *index < KEYS ? &keys[(*index)++].key : NULL;
}

bool conf_rail_gives(const struct conf_rail *rail, const char *name)
{
    return find_entry(rail, name) != NULL;
}
