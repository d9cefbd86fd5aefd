/* Loads configurations from text, in a directory of the test's own. */
#pragma once

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/tcad_conf.h"

static char load_dir[] = "/tmp/tcad-test-config-XXXXXX";

static inline void load_setup(void)
{
    cr_assert_not_null(mkdtemp(load_dir));
    setenv("HOME", load_dir, 1);
    setenv("XDG_RUNTIME_DIR", load_dir, 1);
    unsetenv("XDG_STATE_HOME");
    unsetenv("XDG_CONFIG_HOME");
    unsetenv("RUNTIME_DIRECTORY");
    unsetenv("STATE_DIRECTORY");
    unsetenv("CONFIGURATION_DIRECTORY");
}

static inline void load_teardown(void)
{
    char command[64];

    snprintf(command, sizeof(command), "rm -rf %s", load_dir);
    cr_assert_eq(system(command), 0);
}

/* A file below the test's directory; the name is valid until the next call. */
static inline const char *load_file(const char *name, const char *text, mode_t mode)
{
    static char path[2][128];
    static unsigned turn;
    char *to = path[turn++ % 2];

    snprintf(to, sizeof(path[0]), "%s/%s", load_dir, name);
    unlink(to);
    int fd = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    cr_assert_geq(fd, 0);
    cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    cr_assert_eq(fchmod(fd, mode), 0);
    close(fd);
    return to;
}

/* The output of config_errors_write(), without the directory's name. From malloc. */
static inline char *load_errors(const struct config_errors *errors)
{
    char *text = NULL, *at;
    size_t bytes, cut = strlen(load_dir) + 1;
    FILE *to = open_memstream(&text, &bytes);

    config_errors_write(errors, to);
    fclose(to);
    while ((at = strstr(text, load_dir)))
        memmove(at, at + cut, strlen(at + cut) + 1);
    return text;
}

/* Loads a configuration that must be valid. */
static inline struct tcad_conf *load_good(const char *text, const char *const *overrides)
{
    struct config_errors errors = {0};
    struct tcad_conf *conf = NULL;
    int r = tcad_conf_load(load_file("tcad.conf", text, 0644), false, overrides, &conf, &errors);

    if (r < 0)
        config_errors_write(&errors, stderr);
    cr_assert_eq(r, 0, "%s", strerror(-r));
    cr_assert_eq(errors.count, 0);
    config_errors_deinit(&errors);
    return conf;
}
