#include "tools/tcactl/doc.h"

#include <stdio.h>
#include <string.h>

#include "tools/common/must.h"

const json_t *doc_get(const json_t *doc, const char *path)
{
    while (doc && *path) {
        size_t n = strcspn(path, ".");
        doc = json_object_getn(doc, path, n);
        path += n + (path[n] == '.');
    }
    return doc;
}

const char *doc_text(const json_t *doc, const char *path)
{
    const char *text = json_string_value(doc_get(doc, path));
    return text && *text ? text : "-";
}

double doc_number(const json_t *doc, const char *path)
{
    return json_number_value(doc_get(doc, path));
}

long long doc_integer(const json_t *doc, const char *path)
{
    const json_t *value = doc_get(doc, path);

    if (json_is_real(value)) {
        double real = json_real_value(value);
        return real > -9e18 && real < 9e18 ? (long long)real : 0;
    }
    return json_integer_value(value);
}

bool doc_true(const json_t *doc, const char *path)
{
    return json_is_true(doc_get(doc, path));
}

bool doc_is_number(const json_t *doc, const char *path)
{
    return json_is_number(doc_get(doc, path));
}

size_t doc_count(const json_t *doc, const char *path)
{
    return json_array_size(doc_get(doc, path));
}

const json_t *doc_at(const json_t *doc, const char *path, size_t index)
{
    return json_array_get(doc_get(doc, path), index);
}

char *doc_join(const json_t *doc, const char *path)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = must(open_memstream(&text, &bytes));
    const char *between = "";

    for (size_t i = 0; i < doc_count(doc, path); i++) {
        const char *word = json_string_value(doc_at(doc, path, i));
        if (word) {
            fprintf(to, "%s%s", between, word);
            between = " ";
        }
    }
    if (!*between)
        fputc('-', to);
    if (fclose(to) != 0)
        must(NULL);
    return text;
}
