/* Rails of the short form and of sections [rail NAME]. */
#include "config/conf_rails.h"

#include <errno.h>

#include "load.h"

TestSuite(conf_rails, .init = load_setup, .fini = load_teardown);

Test(conf_rails, the_short_form_makes_one_of_each_driver)
{
    struct tcad_conf *conf = load_good("[rails]\nenable = ofi shm tcp\nofi_provider = verbs\n"
                                       "ofi_port = 7\ntcp_port = 8\ntcp_security = plain\n",
                                       NULL);
    const struct conf_rail *rails = conf->rail_list;
    cr_assert_eq(conf->rail_count, 3);
    cr_expect_eq(rails[0].driver, CONF_RAIL_SHM);
    cr_expect_eq(rails[1].driver, CONF_RAIL_TCP);
    cr_expect_eq(rails[1].port, 8);
    cr_expect_eq(rails[1].security, CONF_SECURITY_PLAIN);
    cr_expect_eq(rails[2].driver, CONF_RAIL_OFI);
    cr_expect_eq(rails[2].port, 7);
    cr_expect_str_eq(rails[2].provider, "verbs");
    for (size_t i = 0; i < conf->rail_count; i++)
        cr_expect(!rails[i].name && !rails[i].plane);
    tcad_conf_free(conf);
}

static const char two[] = "[rail ofi:verbs:mlx5_1]\n"
                          "port = 7081\n"
                          "plane = b\n"
                          "driver = ofi # after others\n"
                          "provider = verbs;ofi_rxm\n"
                          "[rails]\nenable = shm\n"
                          "[rail eth.0]\ndriver = tcp\naddress = eth0\n"
                          "[rail ib]\ndriver = hca\ndevice = mlx5_0\nport = 2\n"
                          "[rail ofi:verbs:mlx5_1]\nunprotected = yes\n";

static void check_two(const struct tcad_conf *conf)
{
    cr_assert_eq(conf->rail_count, 4);
    const struct conf_rail *ofi = &conf->rail_list[1], *tcp = &conf->rail_list[2],
                           *hca = &conf->rail_list[3];
    cr_expect_str_eq(ofi->name, "ofi:verbs:mlx5_1");
    cr_expect_eq(ofi->driver, CONF_RAIL_OFI);
    cr_expect_str_eq(ofi->plane, "b");
    cr_expect_str_eq(ofi->provider, "verbs;ofi_rxm");
    cr_expect_eq(ofi->port, 7081);
    cr_expect(ofi->unprotected);
    cr_expect_str_eq(tcp->name, "eth.0");
    cr_expect_eq(tcp->driver, CONF_RAIL_TCP);
    cr_expect_str_eq(tcp->address, "eth0");
    cr_expect_eq(tcp->port, 0);
    cr_expect_eq(tcp->security, CONF_SECURITY_TLS);
    cr_expect_null(tcp->plane);
    cr_expect_eq(hca->driver, CONF_RAIL_HCA);
    cr_expect_str_eq(hca->device, "mlx5_0");
    cr_expect_eq(hca->port, 2);
    cr_expect_null(hca->address);
}

Test(conf_rails, sections_make_more)
{
    struct tcad_conf *conf = load_good(two, NULL);
    char *text = NULL;
    size_t bytes;
    check_two(conf);
    FILE *to = open_memstream(&text, &bytes);
    tcad_conf_write(conf, to);
    fclose(to);
    struct tcad_conf *again = load_good(text, NULL);
    check_two(again);
    cr_expect(conf_rail_unchanged(&conf->rail_list[1], again));
    tcad_conf_free(again);
    tcad_conf_free(conf);
    free(text);
}

Test(conf_rails, overrides_change_and_make_them)
{
    static const char *const overrides[] = {"rail eth.0.address=eth1", "rail tcp:c.driver=tcp",
                                            "rail tcp:c.plane=c", NULL};
    struct tcad_conf *before = load_good(two, NULL), *conf = load_good(two, overrides);
    cr_assert_eq(conf->rail_count, 5);
    cr_expect_str_eq(conf->rail_list[2].address, "eth1");
    cr_expect_str_eq(conf->rail_list[4].name, "tcp:c");
    cr_expect_str_eq(conf->rail_list[4].plane, "c");
    cr_expect(conf_rail_unchanged(&conf->rail_list[1], before));
    cr_expect_not(conf_rail_unchanged(&conf->rail_list[2], before), "its address");
    cr_expect_not(conf_rail_unchanged(&conf->rail_list[4], before), "is new");
    tcad_conf_free(before);
    tcad_conf_free(conf);
}

static const struct {
    const char *text, *expected;
} bad[] = {
    {"[rail x]\n", "tcad.conf:1: [rail x] has no driver; set driver = tcp, hca, ofi or peach2\n"},
    {"[rail x]\ndriver = shm\n",
     "tcad.conf:2: [rail x] driver = shm: is not known; write tcp, hca, ofi or peach2\n"},
    {"[rail x]\ndriver = tcp\nprovider = verbs\nplane = p\n",
     "tcad.conf:3: [rail x] provider: driver tcp has no such key; it belongs to driver ofi\n"},
    {"[rail x]\ndriver = peach2\naddress = lo\n",
     "tcad.conf:3: [rail x] address: driver peach2 has no such key; it belongs to driver tcp, hca "
     "or ofi\n"},
    {"[rail x]\ndriver = tcp\ndevice = mlx5_0\nplane = p\n",
     "tcad.conf:3: [rail x] device: driver tcp has no such key; it belongs to driver hca\n"},
    {"[rail x]\ndriver = tcp\nprot = 5\nplane = p\n",
     "tcad.conf:3: [rail x] has no key \"prot\"; did you mean \"port\"?\n"},
    {"[rail x]\ndriver = tcp\nzebra = 5\nplane = p\n",
     "tcad.conf:3: [rail x] has no key \"zebra\"; tcad.conf(5) lists them\n"},
    {"[rail x]\ndriver = tcp\nport = 65536\nplane = p\n",
     "tcad.conf:3: [rail x] port = 65536: is too large; write 0 to 65535\n"},
    {"[rail x]\ndriver = tcp\nport = 1\n[rail x]\nport = 2\nplane = p\n",
     "tcad.conf:5: [rail x] port was already set in line 3; remove one of them\n"},
    {"[rail x]\ndriver = tcp\nplane = a_plane_whose_name_is_too_long_by_one\n",
     "tcad.conf:3: [rail x] plane = a_plane_whose_name_is_too_long_by_one: is longer than 31 "
     "characters\n"},
    {"[rail ofi]\ndriver = ofi\nplane = b\n",
     "tcad.conf:1: [rail ofi]: that means any rail of the driver; add its device, as in "
     "ofi:tcp:eth0\n"},
    {"[rail a b]\ndriver = tcp\n",
     "tcad.conf:1: [rail a b]: a rail's name has letters, digits, : ; . _ -\n"},
    {"[rail :x]\ndriver = tcp\n",
     "tcad.conf:1: [rail :x]: a rail's name begins with a letter or digit\n"},
    {"[rail a_name_that_has_32_bytes_or_more]\ndriver = tcp\n",
     "tcad.conf:1: [rail a_name_that_has_32_bytes_or_more]: a rail's name has 1 to 31 "
     "characters\n"},
    {"[rails]\nenable = shm tcp\n[rail x]\ndriver = tcp\n",
     "tcad.conf:3: [rail x] is on the same plane as the rail of [rails], driver tcp; set plane in "
     "one of them, the same one on all nodes that it leads to\n"},
    {"[rail x]\ndriver = tcp\nplane = p\n[rail y]\ndriver = tcp\nplane = p\n",
     "tcad.conf:4: [rail y] is on the same plane as rail x; set plane in one of them, the same one "
     "on all nodes that it leads to\n"},
};

Test(conf_rails, errors_name_the_line)
{
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct config_errors errors = {0};
        struct tcad_conf *conf;
        int r =
            tcad_conf_load(load_file("tcad.conf", bad[i].text, 0644), false, NULL, &conf, &errors);
        char *text = load_errors(&errors);
        cr_expect_eq(r, -EINVAL, "%s", bad[i].text);
        cr_expect_str_eq(text, bad[i].expected);
        free(text);
        config_errors_deinit(&errors);
    }
}

Test(conf_rails, there_is_a_limit)
{
    struct config_errors errors = {0};
    struct tcad_conf *conf;
    char text[4096] = "[rails]\nenable = shm\n";
    for (int i = 0; i < 16; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text),
                 "[rail tcp:%d]\ndriver = tcp\nplane = %d\n", i, i);
    int r = tcad_conf_load(load_file("tcad.conf", text, 0644), false, NULL, &conf, &errors);
    char *said = load_errors(&errors);
    cr_expect_eq(r, -EINVAL);
    cr_expect_not_null(strstr(said, "17 rails: at most 16 are possible"), "%s", said);
    free(said);
    config_errors_deinit(&errors);
}
