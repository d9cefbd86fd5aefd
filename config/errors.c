#include "config/errors.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void config_errors_deinit(struct config_errors *errors)
{
    for (size_t i = 0; i < errors->count; i++) {
        free(errors->list[i].file);
        free(errors->list[i].text);
    }
    free(errors->list);
    *errors = (struct config_errors){0};
}

void config_errors_add(struct config_errors *errors, const char *file, unsigned line,
                       const char *format, ...)
{
    if (!errors->list)
        errors->list = calloc(CONFIG_ERRORS_MAX, sizeof(*errors->list));
    if (!errors->list || errors->count == CONFIG_ERRORS_MAX) {
        errors->dropped++;
        return;
    }

    struct config_error error = {.file = strdup(file), .line = line};
    va_list args;
    va_start(args, format);
    if (vasprintf(&error.text, format, args) < 0)
        error.text = NULL;
    va_end(args);

    if (!error.file || !error.text) {
        free(error.file);
        free(error.text);
        errors->dropped++;
        return;
    }
    errors->list[errors->count++] = error;
}

size_t config_errors_total(const struct config_errors *errors)
{
    return errors->count + errors->dropped;
}

void config_errors_write(const struct config_errors *errors, FILE *to)
{
    for (size_t i = 0; i < errors->count; i++) {
        const struct config_error *error = &errors->list[i];
        if (error->line)
            fprintf(to, "%s:%u: %s\n", error->file, error->line, error->text);
        else
            fprintf(to, "%s: %s\n", error->file, error->text);
    }
    if (errors->dropped)
        fprintf(to, "and %zu more\n", errors->dropped);
}
