/* Directories that others have put where tcad's is to be. */
#include "daemon/base/directory.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { US = 65533, OTHER = 65534 };

static char base[64], path[96], text[512];

static void set_up(void)
{
    strcpy(base, "/tmp/tcad-test-XXXXXX");
    cr_assert_not_null(mkdtemp(base));
    cr_assert_eq(chmod(base, 0777), 0);
    snprintf(path, sizeof(path), "%s/run", base);
}

static void tear_down(void)
{
    char command[128];
    snprintf(command, sizeof(command), "rm -rf %s", base);
    cr_assert_eq(system(command), 0);
}

static int make(const char *where)
{
    text[0] = '\0';
    return directory_make(where, 0700, "node.runtime_dir", text, sizeof(text));
}

/* In a process of its own, as an ordinary user: whether it failed in this way, with this text. */
static bool fails_for_us(int error, const char *says)
{
    pid_t child = fork();
    if (child == 0) {
        if (geteuid() == 0 && (setgid(US) < 0 || setuid(US) < 0))
            _exit(2);
        int r = make(path);
        _exit(!(r == error && (r == 0 || (strstr(text, says) && strstr(text, path)))));
    }
    int status;
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TestSuite(directory, .init = set_up, .fini = tear_down);

Test(directory, is_made_with_its_parents)
{
    struct stat status;
    strcat(path, "/a/b/");
    cr_assert_eq(make(path), 0, "%s", text);
    cr_assert_eq(stat(path, &status), 0);
    cr_assert_eq(status.st_mode & 07777, 0700);
    cr_assert_eq(make(path), 0, "%s", text);
}

Test(directory, that_others_can_write)
{
    static const mode_t modes[] = {0777, 01777, 0770, 0702};
    cr_assert_eq(make(path), 0);
    for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
        cr_assert_eq(chmod(path, modes[i]), 0);
        cr_assert_eq(make(path), -EACCES, "%04o", modes[i]);
        cr_assert_not_null(strstr(text, "chmod go-w"), "%s", text);
    }
    cr_assert_eq(chmod(path, 0755), 0);
    cr_assert_eq(make(path), 0, "%s", text);
}

Test(directory, that_is_none)
{
    char command[128];
    snprintf(command, sizeof(command), "touch %s", path);
    cr_assert_eq(system(command), 0);
    cr_assert_eq(make(path), -ENOTDIR);
}

Test(directory, of_another_user)
{
    if (geteuid() != 0)
        cr_skip_test("only root can be several users");
    cr_assert_eq(mkdir(path, 0755), 0);
    cr_assert_eq(chown(path, OTHER, OTHER), 0);
    cr_assert(fails_for_us(-EACCES, "belongs to user"));
    cr_assert_eq(chown(path, US, US), 0);
    cr_assert(fails_for_us(0, ""));
}

/* It leads to a good directory of this user, but its owner can make it lead elsewhere. */
Test(directory, through_a_link)
{
    char good[96];
    if (geteuid() != 0)
        cr_skip_test("only root can be several users");
    snprintf(good, sizeof(good), "%s/good", base);
    cr_assert_eq(mkdir(good, 0700), 0);
    cr_assert_eq(chown(good, US, US), 0);
    cr_assert_eq(symlink(good, path), 0);
    cr_assert(fails_for_us(0, ""), "root's link is good");
    cr_assert_eq(lchown(path, US, US), 0);
    cr_assert(fails_for_us(0, ""), "and ours");
    cr_assert_eq(lchown(path, OTHER, OTHER), 0);
    cr_assert(fails_for_us(-ELOOP, "symbolic link"));
    cr_assert_eq(make(path), -ELOOP, "for root, too");
    strcat(path, "/");
    cr_assert_eq(make(path), -ELOOP, "and with a slash");
}
