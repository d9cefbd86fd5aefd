#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/integration/actor/actor.h"

/* ---- answers ---- */

int say(const char *format, ...)
{
    va_list arguments;
    fputs("ok ", stdout);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
    fflush(stdout);
    return 0;
}

static int say_text(int error, const char *text)
{
    const char *name = strerrorname_np(-error);
    printf("error -%s ", name ? name : "?");
    for (; *text; text++)
        putchar(*text == '\n' ? ' ' : *text);
    putchar('\n');
    fflush(stdout);
    return 0;
}

int say_error(int error, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    return say_text(error, text);
}

int say_result(int result)
{
    return result < 0 ? say_text(result, tca_error_text()) : say("%d", result);
}

void say_bytes(const void *bytes, size_t count)
{
    const uint8_t *byte = bytes;
    fputs("ok ", stdout);
    for (size_t i = 0; i < count; i++)
        printf("%02x", byte[i]);
    putchar('\n');
    fflush(stdout);
}

/* ---- words ---- */

static _Noreturn void wrong(const struct words *words, size_t index)
{
    fprintf(stderr, "actor: %s: word %zu (%s) makes no sense\n", words->at[0], index,
            index < words->count ? words->at[index] : "missing");
    exit(2);
}

const char *word(const struct words *words, size_t index)
{
    if (index >= words->count)
        wrong(words, index);
    return words->at[index];
}

int64_t word_signed(const struct words *words, size_t index)
{
    char *end;
    int64_t number = strtoll(word(words, index), &end, 0);
    if (*end)
        wrong(words, index);
    return number;
}

uint64_t word_number(const struct words *words, size_t index)
{
    int64_t number = word_signed(words, index);
    if (number < 0)
        wrong(words, index);
    return (uint64_t)number;
}

int64_t word_timeout_ns(const struct words *words, size_t index)
{
    int64_t ms = word_signed(words, index);
    return ms < 0 ? ms : ms * 1000000;
}

void word_bytes(const struct words *words, size_t index, void *bytes, size_t count)
{
    const char *text = word(words, index);
    if (strlen(text) != 2 * count)
        wrong(words, index);
    for (size_t i = 0; i < count; i++) {
        unsigned value;
        if (sscanf(text + 2 * i, "%2x", &value) != 1)
            wrong(words, index);
        ((uint8_t *)bytes)[i] = (uint8_t)value;
    }
}

struct tca_region *word_region(const struct actor *actor, const struct words *words, size_t index)
{
    uint64_t number = word_number(words, index);
    if (number >= actor->region_count || !actor->regions[number])
        wrong(words, index);
    return actor->regions[number];
}

struct tca_plan *word_plan(const struct actor *actor, const struct words *words, size_t index)
{
    uint64_t number = word_number(words, index);
    if (number >= actor->plan_count || !actor->plans[number])
        wrong(words, index);
    return actor->plans[number];
}

struct shape word_shape(const struct words *words, size_t index)
{
    const char *text = word(words, index);
    struct shape shape = {.count = 1};
    unsigned long long count, block;
    long long stride;
    char rest[3];
    int read = sscanf(text, "%llux%llux%lld%2s", &count, &block, &stride, rest);
    if (read == 3 || (read == 4 && strcmp(rest, "i") == 0))
        shape = (struct shape){count, block, stride, read == 4};
    else
        shape.block_bytes = word_number(words, index);
    return shape;
}

/* ---- commands ---- */

bool line_waits(void)
{
    struct pollfd fd = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&fd, 1, 0) > 0;
}

static int run(struct actor *actor, const struct words *words)
{
    const struct command *const tables[] = {session_commands,  data_commands,     plan_commands,
                                            transfer_commands, exchange_commands, crowd_commands,
                                            dmabuf_commands,   signal_commands};
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
        for (const struct command *command = tables[i]; command->name; command++)
            if (strcmp(command->name, words->at[0]) == 0 && words->count > command->words)
                return command->run(actor, words);
    fprintf(stderr, "actor: no command \"%s\" with %zu words\n", words->at[0], words->count - 1);
    exit(2);
}

int main(void)
{
    static struct actor actor;
    char *line = NULL;
    size_t room = 0;

    setvbuf(stdin, NULL, _IONBF, 0); /* so that line_waits() sees all input */
    while (getline(&line, &room, stdin) > 0) {
        struct words words = {0};
        for (char *at = strtok(line, " \n"); at && words.count < WORDS_MAX;
             at = strtok(NULL, " \n"))
            words.at[words.count++] = at;
        if (words.count == 0)
            continue;
        if (strcmp(words.at[0], "quit") == 0)
            break;
        run(&actor, &words);
    }
    free(line);
    tca_close(actor.session);
    for (uint32_t i = 0; i < actor.region_count; i++)
        free(actor.attached[i]);
    return 0;
}
