#include "config/cluster.h"
#include "config/keys.h"
#include "load.h"

TestSuite(conf_reload, .init = load_setup, .fini = load_teardown);

Test(conf_reload, differences_come_in_the_order_of_the_table)
{
    struct tcad_conf *before = load_good("[log]\nlevel = info\n[engine]\nspin = 50us\n", NULL);
    struct tcad_conf *after =
        load_good("[log]\nlevel = debug\n[control]\nsocket_mode = 0600\n[node]\nname = "
                  "other\n[engine]\nspin = 50000ns\ncpu = 0\n",
                  NULL);
    const struct config_key *keys[CONFIG_KEYS_MAX];

    cr_assert_eq(tcad_conf_diff(before, after, keys), 4);
    cr_expect_str_eq(keys[0]->name, "name");
    cr_expect_not(keys[0]->reloadable);
    cr_expect_str_eq(keys[1]->name, "socket_mode");
    cr_expect_str_eq(keys[2]->name, "cpu");
    cr_expect_str_eq(keys[3]->name, "level");
    cr_expect(keys[3]->reloadable);

    char *value = tcad_conf_value(after, keys[3]);
    cr_expect_str_eq(value, "debug");
    free(value);
    tcad_conf_free(before);
    tcad_conf_free(after);
}

Test(conf_reload, only_what_is_reloadable_is_taken_over)
{
    static const char text[] =
        "[node]\nstate_dir = /a\n[log]\nlevel = info\n[limits]\nplans_per_session = 5\n";
    static const char text_next[] =
        "[node]\nstate_dir = /b\n[limits]\nsessions = 9\nsessions_per_user = 9\n";
    static const char *const overrides[] = {"log.level=debug", NULL};
    struct tcad_conf *running = load_good(text, NULL), *next = load_good(text_next, overrides);
    const struct cluster *before = running->cluster;
    const struct config_key *level = config_key_find("log", "level");

    cr_expect_str_eq(tcad_conf_origin(running, level), "file");
    tcad_conf_adopt(running, next);
    cr_expect_str_eq(running->node.state_dir, "/a");
    cr_expect_eq(running->log.level, CONF_LOG_DEBUG);
    cr_expect_str_eq(tcad_conf_origin(running, level), "command line");
    cr_expect_eq(running->limits.sessions, 9);
    cr_expect_eq(running->limits.plans_per_session, 4096);
    cr_expect_str_eq(tcad_conf_origin(running, config_key_find("limits", "plans_per_session")),
                     "default");
    cr_expect_str_eq(next->node.state_dir, "/b");
    cr_expect_eq(next->log.level, CONF_LOG_INFO);
    cr_expect_eq(next->cluster, before);
    cr_expect_neq(running->cluster, before);
    tcad_conf_free(next);
    cr_expect_eq(running->cluster->count, 1);
    tcad_conf_free(running);
}

Test(conf_reload, a_node_does_not_become_another_one)
{
    struct tcad_conf *running = load_good("[node]\nid = 1\n", NULL);
    struct tcad_conf *next = load_good("[node]\nid = 2\n[log]\nlevel = debug\n", NULL);
    const struct cluster *before = running->cluster;

    tcad_conf_adopt(running, next);
    cr_expect_eq(running->node.id, 1);
    cr_expect_eq(running->cluster, before);
    cr_expect_eq(running->log.level, CONF_LOG_DEBUG);
    tcad_conf_free(next);
    tcad_conf_free(running);
}
