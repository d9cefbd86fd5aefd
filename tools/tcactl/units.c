#include "tools/tcactl/units.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>

static struct units_text scale(double value, double step, const char *const *units, size_t count)
{
    struct units_text out;
    size_t i = 0;

    /* The limit at which three digits would round up to the next unit. */
    while (i + 1 < count && fabs(value) >= step * 0.9995) {
        value /= step;
        i++;
    }
    if (i == 0 && value == floor(value))
        snprintf(out.text, sizeof(out.text), "%.0f %s", value, units[i]);
    else
        snprintf(out.text, sizeof(out.text), "%.*f %s",
                 fabs(value) < 9.995   ? 2
                 : fabs(value) < 99.95 ? 1
                                       : 0,
                 value, units[i]);
    return out;
}

struct units_text units_bytes(double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    return scale(bytes, 1024, units, sizeof(units) / sizeof(*units));
}

struct units_text units_ns(double ns)
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    return scale(ns, 1000, units, sizeof(units) / sizeof(*units));
}

struct units_text units_time(double ns)
{
    return ns > 0 ? units_ns(ns) : (struct units_text){"-"};
}

struct units_text units_count(double count)
{
    static const char *const units[] = {"", "k", "M", "G", "T", "P", "E"};
    struct units_text out;

    if (fabs(count) < 1e6 && count == floor(count)) {
        snprintf(out.text, sizeof(out.text), "%.0f", count);
        return out;
    }
    out = scale(count, 1000, units, sizeof(units) / sizeof(*units));
    for (char *p = out.text; *p; p++)
        if (p[0] == ' ' && p[1] == '\0')
            *p = '\0';
    return out;
}

struct units_text units_age(double seconds)
{
    struct units_text out;
    uint64_t s = seconds > 0 && seconds < 1e15 ? (uint64_t)seconds : 0;

    if (s < 60)
        snprintf(out.text, sizeof(out.text), "%us", (unsigned)s);
    else if (s < 3600)
        snprintf(out.text, sizeof(out.text), "%um %us", (unsigned)(s / 60), (unsigned)(s % 60));
    else if (s < 86400)
        snprintf(out.text, sizeof(out.text), "%uh %um", (unsigned)(s / 3600),
                 (unsigned)(s / 60 % 60));
    else
        snprintf(out.text, sizeof(out.text), "%llud %uh", (unsigned long long)(s / 86400),
                 (unsigned)(s / 3600 % 24));
    return out;
}

const char *units_plural(long long count)
{
    return count == 1 ? "" : "s";
}
