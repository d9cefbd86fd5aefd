#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/guess.h"
#include "config/text.h"

static const struct {
    const char *text;
    size_t bytes;
    bool clean;
} texts[] = {
    {"", 0, true},
    {"plain\ttext", 10, true},
    {"a\0b", 3, false},
    {"a\x1b[2J", 5, false},
    {"\x7f", 1, false},
    {"j\xc3\xb6rg", 5, true},
    {"\xc3", 1, false},         /* cut off */
    {"\xc0\xaf", 2, false},     /* overlong */
    {"\xe0\x80\xaf", 3, false}, /* overlong */
    {"\xc2\x9b", 2, false},     /* C1 control */
    {"\xed\xa0\x80", 3, false}, /* surrogate */
    {"\xf0\x9f\x98\x80", 4, true},
    {"\xf4\x90\x80\x80", 4, false}, /* beyond Unicode */
    {"\xff", 1, false},
};

Test(text, clean)
{
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
        cr_expect_eq(config_text_clean(texts[i].text, texts[i].bytes), texts[i].clean, "row %zu",
                     i);
}

Test(text, lines)
{
    static const char text[] = "# comment\n\n  first = 1 # rest\r\nurl = a#b\n\t\nlast";
    struct config_errors errors = {0};
    struct config_lines lines;

    config_lines_init(&lines, "f", text, strlen(text), &errors);
    cr_assert(config_lines_next(&lines));
    cr_expect_str_eq(lines.text, "first = 1");
    cr_expect_eq(lines.line, 3);
    cr_assert(config_lines_next(&lines));
    cr_expect_str_eq(lines.text, "url = a#b");
    cr_assert(config_lines_next(&lines));
    cr_expect_str_eq(lines.text, "last");
    cr_expect_eq(lines.line, 6);
    cr_expect_not(config_lines_next(&lines));
    cr_expect_eq(errors.count, 0);
}

Test(text, bad_lines_are_reported_and_skipped)
{
    char text[CONFIG_LINE_MAX_BYTES + 32];
    struct config_errors errors = {0};
    struct config_lines lines;
    int n = sprintf(text, "a\x01\nb\n");

    memset(text + n, 'x', CONFIG_LINE_MAX_BYTES + 1);
    text[n + CONFIG_LINE_MAX_BYTES + 1] = '\n';
    config_lines_init(&lines, "f", text, (size_t)n + CONFIG_LINE_MAX_BYTES + 2, &errors);
    cr_assert(config_lines_next(&lines));
    cr_expect_str_eq(lines.text, "b");
    cr_expect_not(config_lines_next(&lines));
    cr_assert_eq(errors.count, 2);
    cr_expect_eq(errors.list[0].line, 1);
    cr_expect_str_eq(errors.list[1].text, "the line has 4097 bytes; the limit is 4096");
    config_errors_deinit(&errors);
}

Test(text, errors_are_bounded)
{
    struct config_errors errors = {0};
    char shown[16384] = "";

    for (unsigned i = 1; i <= CONFIG_ERRORS_MAX + 3; i++)
        config_errors_add(&errors, "f", i, "wrong");
    cr_expect_eq(errors.count, CONFIG_ERRORS_MAX);
    cr_expect_eq(config_errors_total(&errors), CONFIG_ERRORS_MAX + 3);
    FILE *to = fmemopen(shown, sizeof(shown), "w");
    config_errors_write(&errors, to);
    fclose(to);
    cr_expect_not_null(strstr(shown, "f:100: wrong\nand 3 more\n"));
    config_errors_deinit(&errors);
    cr_expect_eq(config_errors_total(&errors), 0);
}

Test(text, guesses)
{
    static const struct {
        const char *word, *best;
    } rows[] = {{"sokcet", "socket"}, {"Socket", "socket"}, {"socket_mod", "socket_mode"},
                {"zebra", NULL},      {"x", NULL},          {"lisen", "listen"}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct config_guess guess;
        config_guess_init(&guess, rows[i].word);
        config_guess_try(&guess, "socket");
        config_guess_try(&guess, "socket_mode");
        config_guess_try(&guess, "listen");
        config_guess_try(&guess, "id");
        if (rows[i].best)
            cr_expect_str_eq(guess.best ? guess.best : "(none)", rows[i].best);
        else
            cr_expect_null(guess.best, "%s: %s", rows[i].word, guess.best);
    }
}

Test(text, only_regular_files_of_bounded_size)
{
    char dir[] = "/tmp/tcad-test-text-XXXXXX", path[64];
    struct config_errors errors = {0};
    char *text = NULL;
    size_t bytes;

    cr_assert_not_null(mkdtemp(dir));
    cr_expect_lt(config_text_read(dir, &text, &bytes, &errors), 0);
    snprintf(path, sizeof(path), "%s/f", dir);
    cr_expect_eq(config_text_read(path, &text, &bytes, &errors), -ENOENT);
    cr_expect_eq(errors.count, 1, "the caller reports a missing file");
    cr_assert_eq(mkfifo(path, 0600), 0);
    cr_expect_eq(config_text_read(path, &text, &bytes, &errors), -EINVAL, "and does not hang");
    cr_assert_eq(unlink(path), 0);
    FILE *file = fopen(path, "w");
    cr_assert_eq(ftruncate(fileno(file), CONFIG_FILE_MAX_BYTES + 1), 0);
    cr_expect_eq(config_text_read(path, &text, &bytes, &errors), -EFBIG);
    cr_assert_eq(ftruncate(fileno(file), 3), 0);
    cr_expect_eq(config_text_read(path, &text, &bytes, &errors), 0);
    cr_expect_eq(bytes, 3);
    fclose(file);
    free(text);
    unlink(path);
    rmdir(dir);
    config_errors_deinit(&errors);
}
