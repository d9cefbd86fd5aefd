/* The installed examples: they parse, and tcad.conf.example agrees with the table about every
 * key. */

#include "config/cluster.h"
#include "config/keys.h"
#include "config/text.h"
#include "load.h"

TestSuite(examples, .init = load_setup, .fini = load_teardown);

static char *read_example(const char *name)
{
    struct config_errors errors = {0};
    char path[512], *text = NULL;
    size_t bytes;

    snprintf(path, sizeof(path), "%s/%s", EXAMPLES, name);
    cr_assert_eq(config_text_read(path, &text, &bytes, &errors), 0, "%s", path);
    return text;
}

Test(examples, cluster)
{
    struct config_errors errors = {0};
    struct cluster *cluster = NULL;
    char *text = read_example("cluster.conf.example");
    int r = cluster_parse("cluster.conf.example", text, strlen(text), &cluster, &errors);

    config_errors_write(&errors, stderr);
    cr_assert_eq(r, 0);
    cr_expect_gt(cluster->count, 1);
    cluster_free(cluster);
    free(text);
}

Test(examples, conf_as_it_is_changes_nothing)
{
    char *text = read_example("tcad.conf.example");
    struct tcad_conf *example = load_good(text, NULL), *defaults = load_good("", NULL);
    const struct config_key *keys[CONFIG_KEYS_MAX];

    cr_expect_eq(tcad_conf_diff(example, defaults, keys), 0);
    tcad_conf_free(example);
    tcad_conf_free(defaults);
    free(text);
}

/* Every key is there behind "#", with its default where that is a constant. */
Test(examples, conf_names_every_key_and_its_default)
{
    char *text = read_example("tcad.conf.example"), *at = text;

    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        char line[256];

        if (i == 0 || strcmp(key->section, config_keys[i - 1].section) != 0) {
            snprintf(line, sizeof(line), "\n[%s]\n", key->section);
            at = strstr(at, line);
            cr_assert_not_null(at, "[%s]", key->section);
        }
        if (key->initial)
            snprintf(line, sizeof(line), "\n#%s = %s\n", key->name,
                     *key->initial ? key->initial : "none");
        else
            snprintf(line, sizeof(line), "\n#%s = ", key->name);
        at = strstr(at, line);
        cr_assert_not_null(at, "[%s]%s", key->section, line);
    }
    free(text);
}

/* With the # removed, the file is valid: each value can be used as it is. */
Test(examples, conf_values_are_legal)
{
    char *text = read_example("tcad.conf.example"), *to = text;
    struct config_errors errors = {0};
    struct tcad_conf *conf = NULL;

    for (const char *from = text; *from; from++) {
        bool mark =
            *from == '#' && (from == text || from[-1] == '\n') && from[1] >= 'a' && from[1] <= 'z';
        if (!mark)
            *to++ = *from;
    }
    *to = '\0';
    /* Two of the files it names exist on a configured machine only. */
    int r = tcad_conf_load(load_file("tcad.conf", text, 0644), true,
                           (const char *const[]){"node.cluster_file=", "control.key_file=", NULL},
                           &conf, &errors);
    config_errors_write(&errors, stderr);
    cr_expect_eq(r, 0);
    tcad_conf_free(conf);
    config_errors_deinit(&errors);
    free(text);
}

/* tcad.conf(5) has every key, its default, and a mark where a reload applies it. */
Test(examples, the_manual_page_agrees_with_the_table)
{
    char *text = read_example("../tools/man/tcad.conf.5.scd"), *at = text;

    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        const char *initial = key->initial && *key->initial ? key->initial : "none";
        char line[256];

        if (i == 0 || strcmp(key->section, config_keys[i - 1].section) != 0) {
            snprintf(line, sizeof(line), "\n# [%s]\n", key->section);
            at = strstr(at, line);
            cr_assert_not_null(at, "[%s]", key->section);
        }
        snprintf(line, sizeof(line), "\n*%s* (%s)%s\n", key->name,
                 key->initial ? initial : key->default_help, key->reloadable ? " †" : "");
        at = strstr(at, line);
        cr_assert_not_null(at, "[%s]%s", key->section, line);
    }
    free(text);
}
