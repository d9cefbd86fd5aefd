/* All errors in tcad.conf, and their messages. Files are shown without their directory. */
#include <errno.h>

#include "load.h"

TestSuite(conf_errors, .init = load_setup, .fini = load_teardown);

struct row {
    const char *text;
    const char *errors;
};

static void check(const char *text, const char *const *overrides, const char *expected)
{
    struct config_errors errors = {0};
    struct tcad_conf *conf = NULL;
    int r = tcad_conf_load(load_file("tcad.conf", text, 0644), false, overrides, &conf, &errors);
    char *got = load_errors(&errors);

    cr_expect_eq(r, -EINVAL, "%s", text);
    cr_expect_null(conf, "written although it failed");
    cr_expect_str_eq(got, expected);
    free(got);
    config_errors_deinit(&errors);
}

static void check_all(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        check(rows[i].text, NULL, rows[i].errors);
}
#define CHECK_ALL(rows) check_all(rows, sizeof(rows) / sizeof(*(rows)))

Test(conf_errors, syntax)
{
    static const struct row rows[] = {
        {"[log\n", "tcad.conf:1: \"[log\" is not a section; write [name]\n"},
        {"level = info\n", "tcad.conf:1: \"level = info\" precedes the first [section]\n"},
        {"[log]\nlevel\n", "tcad.conf:2: \"level\" is neither [section] nor key = value\n"},
        {"[log]\n= info\n", "tcad.conf:2: \"= info\" is neither [section] nor key = value\n"},
        {"[]\n", "tcad.conf:1: unknown section []; tcad.conf(5) lists them\n"},
        {"[limit]\nsessions = 0\n",
         "tcad.conf:1: unknown section [limit]; did you mean [limits]?\n"},
        {"[zebra]\n", "tcad.conf:1: unknown section [zebra]; tcad.conf(5) lists them\n"},
        {"[log]\nlevel = \x01\n",
         "tcad.conf:2: the line contains control characters or invalid UTF-8; write plain text\n"},
    };
    CHECK_ALL(rows);
}

Test(conf_errors, keys)
{
    static const struct row rows[] = {
        {"[control]\nsokcet = /s\n",
         "tcad.conf:2: [control] has no key \"sokcet\"; did you mean \"socket\"?\n"},
        {"[control]\nspin = 1s\n",
         "tcad.conf:2: [control] has no key \"spin\"; it belongs to [engine]\n"},
        {"[control]\nzebra = 1\n",
         "tcad.conf:2: [control] has no key \"zebra\"; tcad.conf(5) lists them\n"},
        {"[log]\nlevel = info\n\nlevel = info\n",
         "tcad.conf:4: [log] level was already set in line 2; remove one of them\n"},
        {"[log]\nlevel = info\n[engine]\n[log]\nlevel = debug\n",
         "tcad.conf:5: [log] level was already set in line 2; remove one of them\n"},
    };
    CHECK_ALL(rows);
}

Test(conf_errors, numbers)
{
    static const struct row rows[] = {
        {"[limits]\nsessions = many\n", "tcad.conf:2: [limits] sessions = many: is not a number "
                                        "(65536, 64K, 0x10000); write 1 to 65536\n"},
        {"[limits]\nsessions =\n",
         "tcad.conf:2: [limits] sessions = : has no value; write 1 to 65536\n"},
        {"[limits]\nsessions = 0\n",
         "tcad.conf:2: [limits] sessions = 0: is too small; write 1 to 65536\n"},
        {"[limits]\nsessions = 65537\n",
         "tcad.conf:2: [limits] sessions = 65537: is too large; write 1 to 65536\n"},
        {"[limits]\nsessions = 4294967297\n",
         "tcad.conf:2: [limits] sessions = 4294967297: is too large; write 1 to 65536\n"},
        {"[limits]\nsessions = -1\n", "tcad.conf:2: [limits] sessions = -1: is not a number "
                                      "(65536, 64K, 0x10000); write 1 to 65536\n"},
        {"[node]\nid = 131072\n",
         "tcad.conf:2: [node] id = 131072: is too large; write 0 to 131071\n"},
        {"[rails]\nsegment = 5000\n", "tcad.conf:2: [rails] segment = 5000: is not a multiple of "
                                      "the step; write 4K to 16M in steps of 4K\n"},
        {"[rails]\nsegment = 99999999999T\n", "tcad.conf:2: [rails] segment = 99999999999T: is too "
                                              "large; write 4K to 16M in steps of 4K\n"},
        {"[memory]\nbase = 0x1000\n", "tcad.conf:2: [memory] base = 0x1000: is too small; write "
                                      "0x1000000000 to 0x7e0000000000 in steps of 2M\n"},
        {"[control]\nsocket_mode = 0999\n",
         "tcad.conf:2: [control] socket_mode = 0999: is not an octal mode; write 0000 to 0777\n"},
        {"[control]\nrequest_timeout = 5\n", "tcad.conf:2: [control] request_timeout = 5: is not a "
                                             "duration (50us, 250ms, 5s); write 10ms to 1h\n"},
        {"[control]\nrequest_timeout = 2h\n",
         "tcad.conf:2: [control] request_timeout = 2h: is too large; write 10ms to 1h\n"},
        {"[control]\nrequest_timeout = 0\n",
         "tcad.conf:2: [control] request_timeout = 0: is too small; write 10ms to 1h\n"},
    };
    CHECK_ALL(rows);
}

Test(conf_errors, words)
{
    static const struct row rows[] = {
        {"[control]\nsecurity = ssl\n", "tcad.conf:2: [control] security = ssl: is not known (did "
                                        "you mean \"tls\"?); write tls or plain\n"},
        {"[memory]\nhuge_pages = yes\n",
         "tcad.conf:2: [memory] huge_pages = yes: is not known; write off, try or require\n"},
        {"[rails]\nenable = shm cable\n",
         "tcad.conf:2: [rails] enable = shm cable: \"cable\" is not "
         "known; write one or more of shm, tcp, hca, ofi, peach2\n"},
        {"[rails]\nenable = ,\n", "tcad.conf:2: [rails] enable = ,: is empty; write one or more of "
                                  "shm, tcp, hca, ofi, peach2\n"},
        {"[node]\nname = a/b\n", "tcad.conf:2: [node] name = a/b: is not a node name; write at "
                                 "most 63 letters, digits, - _ . and begin with none of - .\n"},
        {"[node]\nstate_dir = here\n",
         "tcad.conf:2: [node] state_dir = here: is not an absolute path; begin with /\n"},
        {"[control]\nlisten = 10.0.0.1:99999\n", "tcad.conf:2: [control] listen = 10.0.0.1:99999: "
                                                 "the port is not a number from 1 to 65535\n"},
        {"[metrics]\nlisten = localhost\n",
         "tcad.conf:2: [metrics] listen = localhost: the port is missing: write HOST:PORT\n"},
        {"[engine]\ncpu = 0-\n", "tcad.conf:2: [engine] cpu = 0-: is not a list of processors; "
                                 "write a list such as 0-3,8\n"},
        {"[engine]\ncpu = 1024\n",
         "tcad.conf:2: [engine] cpu = 1024: contains processor 1024; the largest number is 1023\n"},
        {"[rails]\nofi_provider = tcp!\n", "tcad.conf:2: [rails] ofi_provider = tcp!: contains "
                                           "\"!\"; write letters, digits, - _ . : ; / %\n"},
    };
    CHECK_ALL(rows);
}

Test(conf_errors, all_of_them_are_reported)
{
    check("[limits]\nsessions = 0\n[lgo]\nlevel = x\n[log]\nlevel = x\nlevel = y\ntarget\n", NULL,
          "tcad.conf:2: [limits] sessions = 0: is too small; write 1 to 65536\n"
          "tcad.conf:3: unknown section [lgo]; did you mean [log]?\n"
          "tcad.conf:6: [log] level = x: is not known; write error, warning, info or debug\n"
          "tcad.conf:7: [log] level was already set in line 6; remove one of them\n"
          "tcad.conf:8: \"target\" is neither [section] nor key = value\n");
}

Test(conf_errors, values_that_do_not_go_together)
{
    static const struct row rows[] = {
        {"[control]\nheartbeat_timeout = 1s\n",
         "tcad.conf:2: [control] heartbeat_timeout = 1s: is less than twice heartbeat_interval; "
         "raise it, or healthy nodes count as down\n"},
        {"[control]\nheartbeat_interval = 3s\n",
         "tcad.conf: [control] heartbeat_timeout = 4s: is less than twice heartbeat_interval; "
         "raise it, or healthy nodes count as down\n"},
        {"[limits]\nsessions = 5\nsessions_per_user = 6\n",
         "tcad.conf:3: [limits] sessions_per_user = 6: is more than sessions; lower it or "
         "raise sessions\n"},
        {"[memory]\nbase = 0x700000000000\n", "tcad.conf: [memory] reserved = 32T: base + reserved "
                                              "exceeds 0x7f0000000000; lower one of them\n"},
        {"[node]\nruntime_dir = "
         "/0123456789/0123456789/0123456789/0123456789/0123456789/0123456789/0123456789/0123456789/"
         "0123456789\n",
         "tcad.conf: [control] socket = "
         "/0123456789/0123456789/0123456789/0123456789/0123456789/0123456789/0123456789/"
         "0123456789/0123456789/tcad.sock: has 109 bytes, but the limit is 107; choose a "
         "shorter runtime_dir or "
         "socket\n"},
        {"[control]\nkey_file = /proc/nonexistent\n",
         "tcad.conf:2: [control] key_file = /proc/nonexistent: "
         "cannot be opened: No such file or directory\n"},
        {"[node]\ncluster_file = /proc/nonexistent\n", "/proc/nonexistent: does not exist\n"},
    };
    CHECK_ALL(rows);
}

Test(conf_errors, processors_that_are_not_there)
{
    char expected[160];

    snprintf(expected, sizeof(expected),
             "tcad.conf:2: [engine] cpu = 0,1023: processor 1023 does not exist; this machine has "
             "0-%ld\n",
             sysconf(_SC_NPROCESSORS_CONF) - 1);
    check("[engine]\ncpu = 0,1023\n", NULL, expected);
}

Test(conf_errors, overrides)
{
    static const struct {
        const char *override, *errors;
    } rows[] = {
        {"log.level", "command line: \"log.level\" is not an override; write section.key=value\n"},
        {"level=info",
         "command line: \"level=info\" is not an override; write section.key=value\n"},
        {"level=in.fo",
         "command line: \"level=in.fo\" is not an override; write section.key=value\n"},
        {"lgo.level=info", "command line: unknown section [lgo]; did you mean [log]?\n"},
        {"log.levle=info", "command line: [log] has no key \"levle\"; did you mean \"level\"?\n"},
        {"log.level=x",
         "command line: [log] level = x: is not known; write error, warning, info or debug\n"},
        {"log.level=\x01",
         "command line: an override contains control characters or invalid UTF-8\n"},
        {"control.heartbeat_timeout=1s",
         "command line: [control] heartbeat_timeout = 1s: is less than twice heartbeat_interval; "
         "raise it, or healthy nodes count as down\n"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const char *const overrides[] = {rows[i].override, NULL};
        check("", overrides, rows[i].errors);
    }
}

static void check_in_cluster(const char *more, const char *expected)
{
    char text[512];

    snprintf(text, sizeof(text), "[node]\ncluster_file = %s\n%s",
             load_file("cluster.conf", "node[1-2] id=1-2 address=127.0.0.1:[7001-7002]\n", 0644),
             more);
    check(text, NULL, expected);
}

Test(conf_errors, clusters)
{
    check_in_cluster(
        "id = 3\n",
        "tcad.conf:3: [node] id = 3: is not in cluster.conf, which has 2 nodes: node[1-2]; set "
        "name or id in [node]\n");
    check_in_cluster("name = node3\n",
                     "tcad.conf:3: [node] name = node3: is not in cluster.conf, which has 2 nodes: "
                     "node[1-2]; set name or id in [node]\n");
    check_in_cluster("name = node1\nid = 2\n[control]\nsecurity = plain\n",
                     "tcad.conf:3: [node] name = node1: contradicts cluster.conf, where "
                     "node 2 is node2; remove "
                     "id or name\n");
    check_in_cluster(
        "id = 1\n",
        "tcad.conf: [control] key_file = none: tls with other nodes requires the cluster key; set "
        "key_file, or security = plain\n");
    check_in_cluster("id = 1\n[control]\nsecurity = plain\nlisten = none\n",
                     "tcad.conf:6: [control] listen = none: the other nodes of the cluster file "
                     "cannot connect; remove it or set an address\n");
    load_file("key", "secret", 0644);
    char text[128];
    snprintf(text, sizeof(text), "id = 1\n[control]\nkey_file = %s/key\n", load_dir);
    check_in_cluster(
        text,
        "tcad.conf:5: [control] key_file = key: is accessible to other users; chmod it to 0600\n");
    load_file("key", "secret", 0600);
    check_in_cluster(
        text, "tcad.conf:5: [control] key_file = key: holds a key of 6 bytes; it must have 32 "
              "to 4096 (make one: openssl rand -hex 32)\n");
}

Test(conf_errors, files)
{
    struct config_errors errors = {0};
    struct tcad_conf *conf = NULL;

    cr_expect_eq(tcad_conf_load("/proc/nonexistent", false, NULL, &conf, &errors), -EINVAL);
    cr_expect_eq(tcad_conf_load("/dev/null", false, NULL, &conf, &errors), -EINVAL);
    char *got = load_errors(&errors);
    cr_expect_str_eq(got, "/proc/nonexistent: does not exist\n/dev/null: is not a regular file\n");
    free(got);
    cr_expect_null(conf);
    config_errors_deinit(&errors);
}

Test(conf_errors, an_environment_that_cannot_be_used)
{
    struct config_errors errors = {0};
    struct tcad_conf *conf = NULL;

    setenv("RUNTIME_DIRECTORY", "/run/\x1b[2J", 1);
    cr_expect_eq(tcad_conf_load(load_file("tcad.conf", "", 0644), false, NULL, &conf, &errors),
                 -EINVAL);
    char *got = load_errors(&errors);
    cr_expect_str_eq(got, "environment: default of [node] runtime_dir = ?: contains control "
                          "characters or invalid UTF-8; or set the key in the file\n");
    free(got);
    config_errors_deinit(&errors);
}
