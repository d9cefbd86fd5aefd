#include <errno.h>
#include <limits.h>

#include "config/cluster.h"
#include "config/keys.h"
#include "config/secret.h"
#include "load.h"

TestSuite(conf, .init = load_setup, .fini = load_teardown);

static struct tcad_conf *defaults(void)
{
    struct config_errors errors = {0};
    struct tcad_conf *conf = NULL;

    cr_assert_eq(tcad_conf_load(NULL, false, NULL, &conf, &errors), 0);
    return conf;
}

static void assert_same(const struct tcad_conf *a, const struct tcad_conf *b)
{
    const struct config_key *keys[CONFIG_KEYS_MAX];
    size_t count = tcad_conf_diff(a, b, keys);

    cr_assert_eq(count, 0, "%s.%s differs", keys[0]->section, keys[0]->name);
}

static char *written(const struct tcad_conf *conf,
                     void (*write_conf)(const struct tcad_conf *, FILE *))
{
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);

    write_conf(conf, to);
    fclose(to);
    return text;
}

static char *below(const char *name)
{
    static char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/%s", load_dir, name);
    return path;
}

Test(conf, defaults_are_what_the_manual_says)
{
    struct tcad_conf *conf = defaults();

    cr_expect_null(conf->file);
    cr_expect_eq(conf->node.id, 0);
    cr_expect_null(conf->node.cluster_file);
    cr_expect_str_eq(conf->node.runtime_dir, below("tcad"));
    cr_expect_str_eq(conf->node.state_dir, below(".local/state/tcad"));
    cr_expect_str_eq(conf->control.socket, below("tcad/tcad.sock"));
    cr_expect_eq(conf->control.socket_mode, 0666);
    cr_expect_str_eq(conf->control.listen.host, "");
    cr_expect_eq(conf->control.security, CONF_SECURITY_TLS);
    cr_expect_null(conf->control.key_file);
    cr_expect_eq(conf->control.heartbeat_interval_ns, 1000000000);
    cr_expect_eq(conf->control.heartbeat_timeout_ns, 4000000000);
    cr_expect_eq(conf->control.request_timeout_ns, 10000000000);
    cr_expect_eq(conf->memory.base, 0x200000000000);
    cr_expect_eq(conf->memory.reserved_bytes, 32ull << 40);
    cr_expect_gt(conf->memory.region_bytes_per_user, 0);
    cr_expect_eq(conf->memory.huge_pages, CONF_HUGE_PAGES_TRY);
    cr_expect_eq(conf->limits.sessions, 4096);
    cr_expect_eq(conf->limits.sessions_per_user, 2048);
    cr_expect_eq(conf->limits.regions_per_session, 4096);
    cr_expect_eq(conf->limits.plans_per_session, 4096);
    cr_expect_eq(conf->limits.steps_per_session, 1 << 20);
    cr_expect_eq(conf->limits.pairs_per_session, 64);
    cr_expect_eq(conf->limits.groups_per_user, 1024);
    cr_expect_eq(conf->limits.published_per_group, 65536);
    cr_expect_eq(conf->limits.plan_bytes_per_session, 256 << 20);
    cr_expect_eq(conf->engine.spin_ns, 50000);
    cr_expect_eq(conf->engine.yield_ns, 100000);
    cr_expect_eq(CPU_COUNT(&conf->engine.cpus), 0);
    cr_expect_eq(conf->rails.enable, CONF_RAIL_SHM | CONF_RAIL_TCP);
    cr_expect_str_eq(conf->rails.ofi_provider, "tcp");
    cr_expect_null(conf->rails.ofi_address);
    cr_expect_eq(conf->rails.calibration, CONF_CALIBRATION_AUTO);
    cr_expect_str_eq(conf->rails.calibration_file, below(".local/state/tcad/calibration"));
    cr_expect_eq(conf->rails.segment_bytes, 128 << 10);
    cr_expect_str_eq(conf->metrics.listen.host, "");
    cr_expect_eq(conf->log.level, CONF_LOG_INFO);
    cr_expect_eq(conf->log.target, CONF_LOG_AUTO);
    cr_assert_eq(conf->cluster->count, 1);
    cr_expect_str_eq(conf->cluster->nodes[0].name, conf->node.name);
    tcad_conf_free(conf);
}

Test(conf, what_is_written_reads_as_the_same)
{
    struct tcad_conf *conf = defaults(), *again;
    char *text = written(conf, tcad_conf_write), *text_again;

    again = load_good(text, NULL);
    assert_same(conf, again);
    text_again = written(again, tcad_conf_write);
    cr_expect_str_eq(text, text_again);
    free(text);
    free(text_again);
    tcad_conf_free(again);
    tcad_conf_free(conf);
}

static const char everything[] =
    "[node]\nid = 65535\nname = n7.example\nruntime_dir = /tmp/j\xc3\xb6rg x\nstate_dir = /s\n"
    "[control]\nsocket=/tmp/s\nsocket_mode = 600\nlisten = [::1]:7000\nsecurity = plain\n"
    "heartbeat_interval = 1.5s\nheartbeat_timeout = 2min\nrequest_timeout = 750ms\n"
    "[memory]\nbase = 0x100000000000\nreserved = 1G\nregion_bytes_per_user = 1M\nhuge_pages = "
    "require\n"
    "[limits]\nsessions = 7\nsessions_per_user = 7\nsteps_per_session = 3K\n"
    "[engine]\nspin = 0\nyield = 1us\ncpu = 0\n"
    "[rails]\nenable = ofi\nofi_provider = none\nofi_address = eth0\ncalibration = off\nsegment = "
    "4096\n"
    "[metrics]\nlisten = localhost:9100\n[log]\nlevel = error\ntarget = stderr\n";

Test(conf, every_type_of_value)
{
    struct tcad_conf *conf = load_good(everything, NULL), *again;
    char *text = written(conf, tcad_conf_write);

    cr_expect_eq(conf->node.id, 65535);
    cr_expect_str_eq(conf->node.runtime_dir, "/tmp/j\xc3\xb6rg x");
    cr_expect_eq(conf->control.socket_mode, 0600);
    cr_expect_str_eq(conf->control.listen.host, "::1");
    cr_expect_eq(conf->control.listen.port, 7000);
    cr_expect_eq(conf->control.heartbeat_interval_ns, 1500000000);
    cr_expect_eq(conf->limits.steps_per_session, 3072);
    cr_expect_eq(conf->engine.spin_ns, 0);
    cr_expect(CPU_ISSET(0, &conf->engine.cpus));
    cr_expect_eq(conf->rails.enable, CONF_RAIL_OFI);
    cr_expect_null(conf->rails.ofi_provider);
    cr_expect_str_eq(conf->rails.ofi_address, "eth0");
    cr_expect_str_eq(conf->rails.calibration_file, "/s/calibration");
    cr_expect_eq(conf->metrics.listen.port, 9100);
    again = load_good(text, NULL);
    assert_same(conf, again);
    free(text);
    tcad_conf_free(again);
    tcad_conf_free(conf);
}

Test(conf, overrides_win_and_the_last_wins)
{
    static const char *const overrides[] = {
        "log.level=debug",     "engine.spin = 1ms",   "log.level=warning",
        "rails.ofi_provider=", "node.state_dir=/a=b", NULL};
    struct tcad_conf *conf = load_good("[log]\nlevel = error\n", overrides);

    cr_expect_eq(conf->log.level, CONF_LOG_WARNING);
    cr_expect_eq(conf->engine.spin_ns, 1000000);
    cr_expect_null(conf->rails.ofi_provider);
    cr_expect_str_eq(conf->node.state_dir, "/a=b");
    tcad_conf_free(conf);
}

Test(conf, the_system_has_directories_of_its_own)
{
    struct config_errors errors = {0};
    struct tcad_conf *conf = NULL;

    cr_assert_eq(tcad_conf_load(load_file("tcad.conf", "", 0644), true, NULL, &conf, &errors), 0);
    cr_expect_str_eq(conf->control.socket, "/run/tcad/tcad.sock");
    cr_expect_str_eq(conf->node.state_dir, "/var/lib/tcad");
    tcad_conf_free(conf);
}

Test(conf, systemd_says_where_directories_are)
{
    struct tcad_conf *conf;

    setenv("RUNTIME_DIRECTORY", "/run/one:/run/two", 1);
    setenv("STATE_DIRECTORY", "/state", 1);
    setenv("CONFIGURATION_DIRECTORY", load_dir, 1);
    load_file("tcad.conf", "[log]\nlevel = debug\n", 0644);
    conf = defaults();
    cr_expect_str_eq(conf->file, below("tcad.conf"));
    cr_expect_str_eq(conf->node.runtime_dir, "/run/one");
    cr_expect_str_eq(conf->node.state_dir, "/state");
    cr_expect_eq(conf->log.level, CONF_LOG_DEBUG);
    tcad_conf_free(conf);
}

/* Whatever the prefix is, because the unit and the manuals have this path. */
Test(conf, the_file_of_the_system)
{
    unsetenv("CONFIGURATION_DIRECTORY");
    char *path = tcad_conf_default_path(true);
    cr_expect_str_eq(path, "/etc/tcad/tcad.conf");
    free(path);
}

Test(conf, without_a_home)
{
    char expected[64];
    struct tcad_conf *conf;

    unsetenv("HOME");
    setenv("XDG_RUNTIME_DIR", "relative", 1);
    snprintf(expected, sizeof(expected), "/tmp/tcad-%u", (unsigned)geteuid());
    conf = defaults();
    cr_expect_str_eq(conf->node.runtime_dir, expected);
    strcat(expected, "/state");
    cr_expect_str_eq(conf->node.state_dir, expected);
    tcad_conf_free(conf);
}

static const char cluster_text[] = "cluster = c\nnode[1-2] id=1-2 address=127.0.0.1:[7001-7002]\n";

static struct tcad_conf *in_cluster(const char *node, const char *more)
{
    char text[512];

    snprintf(text, sizeof(text), "[node]\ncluster_file = %s\n%s\n[control]\nsecurity = plain\n%s\n",
             load_file("cluster.conf", cluster_text, 0644), node, more);
    return load_good(text, NULL);
}

Test(conf, who_this_node_is_comes_from_the_cluster_file)
{
    struct tcad_conf *by_name = in_cluster("name = node2", ""), *by_id = in_cluster("id = 2", "");

    assert_same(by_name, by_id);
    cr_expect_eq(by_name->node.id, 2);
    cr_expect_str_eq(by_id->node.name, "node2");
    cr_expect_str_eq(by_id->control.listen.host, "127.0.0.1");
    cr_expect_eq(by_id->control.listen.port, 7002);
    cr_expect_str_eq(by_id->rails.ofi_address, "127.0.0.1");
    cr_expect_eq(by_id->cluster->count, 2);
    tcad_conf_free(by_name);
    tcad_conf_free(by_id);

    by_id = in_cluster("id = 1", "listen = 0.0.0.0:7001");
    cr_expect_str_eq(by_id->control.listen.host, "0.0.0.0");
    tcad_conf_free(by_id);
}

Test(conf, a_secret_is_opened_only_when_it_is_one)
{
    static const struct {
        mode_t mode;
        bool good;
    } rows[] = {{0600, true},  {0400, true},  {0604, false},
                {0644, false}, {0622, false}, {0660, false}};
    char why[128] = "";

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        int fd = config_secret_open(load_file("key", "secret", rows[i].mode), why, sizeof(why));
        cr_expect_eq(fd >= 0, rows[i].good, "%o: %s", rows[i].mode, why);
        cr_expect(fd >= 0 || fd == -EPERM);
        if (fd >= 0)
            close(fd);
    }
    int fd = config_secret_open(load_file("key", "secret", 0640), why, sizeof(why));
    cr_expect_eq(fd >= 0, geteuid() == 0, "a group may read what root owns, and only that");
    if (fd >= 0)
        close(fd);
    cr_expect_eq(config_secret_open(load_dir, why, sizeof(why)), -EPERM);
    cr_expect_str_eq(why, "is not a regular file");
    cr_expect_eq(config_secret_open(load_file("key", "", 0600), why, sizeof(why)), -EPERM);
    cr_expect_str_eq(why, "is empty");
    cr_expect_eq(config_secret_open("/proc/nonexistent", why, sizeof(why)), -ENOENT);
}

Test(conf, a_key_is_read_whole_and_has_a_length)
{
    unsigned char key[SECRET_MAX_BYTES];
    char why[160] = "", content[SECRET_MAX_BYTES + 64];
    size_t bytes = 0;
    const struct {
        size_t letters;
        int result;
    } rows[] = {{6, -EINVAL}, {31, -EINVAL}, {32, 0}, {64, 0}, {4096, 0}, {4097, -EINVAL}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        memset(content, 'k', sizeof(content));
        content[0] = ' '; /* white space around it does not count */
        strcpy(content + 1 + rows[i].letters, "\n");
        int r = config_secret_read(load_file("key", content, 0600), key, &bytes, why, sizeof(why));
        cr_expect_eq(r, rows[i].result, "%zu: %d, %s", rows[i].letters, r, why);
        if (r == 0)
            cr_expect_eq(bytes, rows[i].letters);
        else
            cr_expect_not_null(strstr(why, "32 to 4096"), "%s", why);
    }
}

Test(conf, the_table_is_sound)
{
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        cr_expect_eq(config_key_find(key->section, key->name), key, "%s.%s is there twice",
                     key->section, key->name);
        cr_expect_eq(config_key_at(key->offset), key, "%s.%s shares its field", key->section,
                     key->name);
        cr_expect_not_null(key->help);
        cr_expect(key->initial || key->default_help, "%s.%s says no default", key->section,
                  key->name);
    }
    cr_expect_null(config_key_find("node", "level"));
}
