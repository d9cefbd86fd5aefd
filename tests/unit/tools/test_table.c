#include "tests/unit/tools/show.h"

#include "tools/tcactl/table.h"

static const char *const titles[] = {">ID", "NAME", "STATE", NULL};

Test(table, aligns_numbers_right_and_words_left)
{
    struct shown *shown = shown_begin(false, false);
    struct table table;

    table_init(&table, titles);
    table_add(&table, "%d", 7);
    table_add(&table, "%s", "a");
    table_add_state(&table, "up");
    table_add(&table, "%d", 12345);
    table_add(&table, "%s", "longer");
    table_add_state(&table, "down");
    table_print(&table, &shown->screen, 2, "none");
    table_deinit(&table);
    expect(shown, "     ID  NAME    STATE\n"
                  "      7  a       up\n"
                  "  12345  longer  down\n");
}

Test(table, says_what_there_is_not)
{
    struct shown *shown = shown_begin(false, false);
    struct table table;

    table_init(&table, titles);
    table_print(&table, &shown->screen, 0, "no nodes");
    table_deinit(&table);
    expect(shown, "no nodes\n");
}

Test(table, colours_do_not_move_columns)
{
    struct shown *shown = shown_begin(true, true);
    struct table table;

    table_init(&table, titles);
    table_add(&table, "%d", 1);
    table_add(&table, "%s", "n\xc3\xb6rd");
    table_add_state(&table, "down");
    table_print(&table, &shown->screen, 0, "none");
    table_deinit(&table);
    expect(shown, "\033[1mID\033[0m  \033[1mNAME\033[0m  \033[1mSTATE\033[0m\n"
                  " 1  n\xc3\xb6rd  \033[1;31mdown\033[0m\n");
}

/* Names come from strangers: none may write escape sequences, or change the direction of text. */
Test(table, disarms_what_others_named)
{
    struct shown *shown = shown_begin(true, false);

    cr_expect_eq(screen_text(&shown->screen, "a\033[2Jb\n\x7f\xc2\x9b!\xe2\x80\xae."), 12);
    expect(shown, "a?[2Jb?"
                  "?"
                  "?!?.");
    shown = shown_begin(false, false);
    cr_expect_eq(screen_text(&shown->screen, "n\xc3\xb6rd"), 4);
    expect(shown, "n?rd");
}

Test(table, many_rows)
{
    struct shown *shown = shown_begin(false, false);
    struct table table;
    size_t lines = 0;

    table_init(&table, titles);
    for (int i = 0; i < 5000; i++) {
        table_add(&table, "%d", i);
        table_add(&table, "n%d", i);
        table_add_state(&table, "idle");
    }
    table_print(&table, &shown->screen, 0, "none");
    table_deinit(&table);
    fflush(shown->screen.to);
    for (const char *p = shown->text; (p = strchr(p, '\n')); p++)
        lines++;
    cr_expect_eq(lines, 5001);
    fclose(shown->screen.to);
    free(shown->text);
    free(shown);
}

static void expect_at(unsigned columns, const char *expected)
{
    static const char *const worded[] = {">ID", "NAME", "MEANING", NULL};
    struct shown *shown = shown_begin(false, false);
    struct table table;

    shown->screen.columns = columns;
    table_init(&table, worded);
    table_add(&table, "%d", 7);
    table_add(&table, "n");
    table_add(&table, "what it says in many words, more than there is room for");
    table_add(&table, "%d", 10);
    table_add(&table, "longer");
    table_add(&table, "%s", "");
    table_print(&table, &shown->screen, 0, "none");
    table_deinit(&table);
    expect(shown, expected);
}

Test(table, words_go_on_below_where_the_terminal_ends)
{
    expect_at(0, "ID  NAME    MEANING\n"
                 " 7  n       what it says in many words, more than there is room for\n"
                 "10  longer\n");
    expect_at(67, "ID  NAME    MEANING\n"
                  " 7  n       what it says in many words, more than there is room for\n"
                  "10  longer\n");
    expect_at(40, "ID  NAME    MEANING\n"
                  " 7  n       what it says in many words,\n"
                  "            more than there is room for\n"
                  "10  longer\n");
    expect_at(30, "ID  NAME\n"
                  "    MEANING\n"
                  " 7  n\n"
                  "    what it says in many\n"
                  "    words, more than there is\n"
                  "    room for\n"
                  "10  longer\n");
}

/* A word that is longer than a line is on a line of its own. */
Test(table, words_are_not_cut)
{
    static const char *const one[] = {"NAME", "MEANING", NULL};
    struct shown *shown = shown_begin(false, false);
    struct table table;

    shown->screen.columns = 32;
    table_init(&table, one);
    table_add(&table, "a");
    table_add(&table, "it is /a/path/that/nobody/would/want/to/see/cut there");
    table_print(&table, &shown->screen, 0, "none");
    table_deinit(&table);
    expect(shown, "NAME  MEANING\n"
                  "a     it is\n"
                  "      /a/path/that/nobody/would/want/to/see/cut\n"
                  "      there\n");
}

/* Optional columns are omitted first, the last of them before the others; then words wrap. */
Test(table, leaves_out_what_does_not_fit)
{
    static const char *const spare_titles[] = {"ID", "?>BYTES", "?STATE", "NAME", NULL};
    static const struct {
        unsigned columns;
        const char *text;
    } cases[] = {
        {0, "ID  BYTES  STATE  NAME\n1      64  up     somebody\n"},
        {26, "ID  BYTES  STATE  NAME\n1      64  up     somebody\n"},
        {25, "ID  BYTES  NAME\n1      64  somebody\n"},
        {19, "ID  BYTES  NAME\n1      64  somebody\n"},
        {18, "ID  NAME\n1   somebody\n"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct shown *shown = shown_begin(false, false);
        struct table table;
        shown->screen.columns = cases[i].columns;
        table_init(&table, spare_titles);
        table_add(&table, "1");
        table_add(&table, "64");
        table_add_state(&table, "up");
        table_add(&table, "somebody");
        table_print(&table, &shown->screen, 0, "none");
        table_deinit(&table);
        expect(shown, cases[i].text);
    }
}
