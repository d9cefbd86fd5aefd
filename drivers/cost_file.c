/* The cost table as text: lines "rail seat parameter = value" for each measured rail and seat, and
 * lines "load = value" and "spread = value". */
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "drivers/cost.h"

#define SIGNATURE "tcad-cost 10"

static const struct {
    const char *name;
    size_t offset;
} fields[] = {
    {"hop_ns", offsetof(struct cost_parameters, hop_ns)},
    {"block_ns", offsetof(struct cost_parameters, block_ns)},
    {"put_64_ns", offsetof(struct cost_parameters, put_ns[0])},
    {"put_256_ns", offsetof(struct cost_parameters, put_ns[1])},
    {"put_1K_ns", offsetof(struct cost_parameters, put_ns[2])},
    {"put_4K_ns", offsetof(struct cost_parameters, put_ns[3])},
    {"put_16K_ns", offsetof(struct cost_parameters, put_ns[4])},
    {"put_64K_ns", offsetof(struct cost_parameters, put_ns[5])},
    {"put_256K_ns", offsetof(struct cost_parameters, put_ns[6])},
    {"put_1M_ns", offsetof(struct cost_parameters, put_ns[7])},
    {"put_4M_ns", offsetof(struct cost_parameters, put_ns[8])},
};
enum { FIELDS = sizeof(fields) / sizeof(fields[0]), ALL_FIELDS = (1 << FIELDS) - 1 };

struct seen {
    unsigned at[RAIL_SLOTS][SEAT_COUNT]; /* one bit per field */
};

static double *field_of(struct cost_parameters *parameters, unsigned field)
{
    return (double *)((char *)parameters + fields[field].offset);
}

static bool read_number(const char *text, double *ret_value)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || end[strspn(end, " \t\r\n")] != '\0')
        return false;
    *ret_value = value;
    return true;
}

/* The index of a rail, or RAIL_SLOTS. */
static unsigned find_rail(const struct cost_table *table, const char *name)
{
    unsigned rail = 0;
    while (rail < RAIL_SLOTS && strcmp(table->rails[rail].name, name) != 0)
        rail++;
    return rail;
}

/* Of the whole table. */
static const struct {
    const char *name;
    size_t offset;
} notes[] = {{"load", offsetof(struct cost_table, load)},
             {"spread", offsetof(struct cost_table, spread)}};
enum { NOTES = sizeof(notes) / sizeof(notes[0]) };

static double *note_of(struct cost_table *table, unsigned note)
{
    return (double *)((char *)table + notes[note].offset);
}

/* Whether the line is a note; *ret_why: NULL, or the fault. */
static bool read_note(const char *line, struct cost_table *table, const char **ret_why)
{
    char name[32];
    int used = 0;
    double value;
    unsigned note = 0;
    if (sscanf(line, " %31[a-z] = %n", name, &used) != 1 || used == 0)
        return false;
    while (note < NOTES && strcmp(notes[note].name, name) != 0)
        note++;
    const bool valid =
        note < NOTES && read_number(line + used, &value) && isfinite(value) && value >= 0;
    *ret_why = note == NOTES ? "unknown note" : valid ? NULL : "not a number of 0 or more";
    if (valid)
        *note_of(table, note) = value;
    return true;
}

/* Parses one line of the file. NULL, or a text that names the fault. */
static const char *read_line(const char *line, struct cost_table *table, struct seen *seen)
{
    char rail_text[RAIL_NAME_MAX_BYTES], seat_text[32], field_text[32];
    const char *why;
    int used = 0;
    if (read_note(line, table, &why))
        return why;
    static_assert(RAIL_NAME_MAX_BYTES == 32, "width below");
    if (sscanf(line, " %31[^ \t] %31[a-z0-9_] %31[A-Za-z0-9_] = %n", rail_text, seat_text,
               field_text, &used) != 3 ||
        used == 0)
        return "not a line of the form rail seat parameter = value";

    const unsigned rail = find_rail(table, rail_text);
    enum seat seat = seat_from_name(seat_text);
    if (seat <= SEAT_NONE || seat >= SEAT_COUNT)
        return "unknown seat";
    unsigned field = 0;
    while (field < FIELDS && strcmp(fields[field].name, field_text) != 0)
        field++;
    if (field == FIELDS)
        return "unknown parameter";
    if (rail < RAIL_SLOTS && seen->at[rail][seat] & 1u << field)
        return "duplicate parameter";

    double value;
    if (!read_number(line + used, &value))
        return "not a number";
    if (!isfinite(value) || value < 0)
        return "number out of range";
    if (rail == RAIL_SLOTS)
        return NULL;
    seen->at[rail][seat] |= 1u << field;
    *field_of(&table->rails[rail].at[seat], field) = value;
    return NULL;
}

static bool is_ascending(const struct cost_parameters *parameters)
{
    for (unsigned size = 1; size < COST_SIZES; size++)
        if (parameters->put_ns[size] < parameters->put_ns[size - 1])
            return false;
    return true;
}

static const char *finish_table(struct cost_table *table, const struct seen *seen)
{
    for (unsigned rail = 0; rail < RAIL_SLOTS; rail++) {
        for (int seat = 0; seat < SEAT_COUNT; seat++) {
            if (seen->at[rail][seat] != 0 && seen->at[rail][seat] != ALL_FIELDS)
                return "parameters of a rail are missing";
            if (!is_ascending(&table->rails[rail].at[seat]))
                return "a put takes less time than a shorter one";
            table->rails[rail].at[seat].valid = seen->at[rail][seat] == ALL_FIELDS;
        }
    }
    return NULL;
}

static const char *read_file(FILE *file, struct cost_table *table, unsigned *line_number)
{
    struct seen seen = {0};
    char line[256];
    *line_number = 1;
    if (!fgets(line, sizeof(line), file) || strcmp(line, SIGNATURE "\n") != 0)
        return "the first line is not \"" SIGNATURE "\"";
    while (fgets(line, sizeof(line), file)) {
        ++*line_number;
        if (!strchr(line, '\n') && !feof(file))
            return "line too long";
        size_t blank = strspn(line, " \t\r\n");
        if (line[blank] == '#' || line[blank] == '\0')
            continue;
        const char *why = read_line(line, table, &seen);
        if (why)
            return why;
    }
    return ferror(file) ? "read error" : finish_table(table, &seen);
}

/* Switches to the C locale, so that numbers have a decimal point whatever locale the application
 * has set. (locale_t)0: out of memory. */
static locale_t use_c_locale(locale_t *ret_before)
{
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (c_locale)
        *ret_before = uselocale(c_locale);
    return c_locale;
}

static void restore_locale(locale_t c_locale, locale_t before)
{
    uselocale(before);
    freelocale(c_locale);
}

int cost_read(const char *path, struct cost_table *table, const char **ret_why, unsigned *ret_line)
{
    struct cost_table read = {0};
    unsigned line = 0;
    FILE *file = fopen(path, "re");
    if (!file)
        return -errno;
    for (unsigned rail = 0; rail < RAIL_SLOTS; rail++)
        memcpy(read.rails[rail].name, table->rails[rail].name, sizeof(read.rails[rail].name));
    locale_t before, c_locale = use_c_locale(&before);
    if (!c_locale) {
        fclose(file);
        return -ENOMEM;
    }
    const char *why = read_file(file, &read, &line);
    restore_locale(c_locale, before);
    fclose(file);
    if (why) {
        *ret_why = why;
        *ret_line = line;
        return -EINVAL;
    }
    *table = read;
    return 0;
}

static void write_header(FILE *file)
{
    char host[256] = "?", processor[256] = "?", date[64] = "?", line[256];
    struct tm now;
    time_t seconds = time(NULL);

    gethostname(host, sizeof(host) - 1);
    if (gmtime_r(&seconds, &now))
        strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", &now);
    FILE *cpuinfo = fopen("/proc/cpuinfo", "re");
    if (cpuinfo) {
        while (fgets(line, sizeof(line), cpuinfo))
            if (sscanf(line, "model name : %255[^\n]", processor) == 1)
                break;
        fclose(cpuinfo);
    }
    fprintf(file, SIGNATURE "\n# host: %s\n# processor: %s\n# measured: %s\n", host, processor,
            date);
}

static void write_parameters(FILE *file, const char *rail, const char *seat,
                             const struct cost_parameters *parameters)
{
    struct cost_parameters copy = *parameters;
    for (unsigned field = 0; field < FIELDS; field++)
        fprintf(file, "%s %s %s = %.9g\n", rail, seat, fields[field].name, *field_of(&copy, field));
}

static int write_file(FILE *file, const struct cost_table *table)
{
    struct cost_table copy = *table;
    write_header(file);
    for (unsigned note = 0; note < NOTES; note++)
        fprintf(file, "%s = %.3g\n", notes[note].name, *note_of(&copy, note));
    for (const struct cost_rail *rail = table->rails; rail < table->rails + RAIL_SLOTS; rail++)
        for (int seat = SEAT_NONE + 1; seat < SEAT_COUNT; seat++)
            if (rail->at[seat].valid)
                write_parameters(file, rail->name, seat_name(seat), &rail->at[seat]);
    if (fflush(file) != 0 || fsync(fileno(file)) < 0)
        return -errno;
    return 0;
}

int cost_write(const char *path, const struct cost_table *table)
{
    char *temporary;
    struct stat there;
    if (lstat(path, &there) == 0 && !S_ISREG(there.st_mode))
        return -EEXIST; /* do not replace a device or a link */
    if (asprintf(&temporary, "%s.XXXXXX", path) < 0)
        return -ENOMEM;
    int r = 0, fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0) {
        r = -errno;
        goto free_name;
    }
    fchmod(fd, 0644);
    FILE *file = fdopen(fd, "w");
    if (!file) {
        r = -errno;
        close(fd);
        goto remove_file;
    }
    locale_t before, c_locale = use_c_locale(&before);
    if (c_locale) {
        r = write_file(file, table);
        restore_locale(c_locale, before);
    } else {
        r = -ENOMEM;
    }
    if (fclose(file) != 0 && r == 0)
        r = -errno;
    if (r == 0 && rename(temporary, path) < 0)
        r = -errno;
remove_file:
    if (r < 0)
        unlink(temporary);
free_name:
    free(temporary);
    return r;
}
