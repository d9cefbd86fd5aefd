/* Any bytes are a tcad.conf and a cluster file, or are refused with reasons; the parsed values are
 * written, and parsed again to the same values. */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config/cluster.h"
#include "config/keys.h"
#include "config/tcad_conf.h"
#include "tests/fuzz/fuzz.h"

/* From one file in memory, shared by all inputs. */
static int load(const void *text, size_t bytes, struct tcad_conf **ret_conf)
{
    static int fd = -1;
    struct config_errors errors = {0};
    char path[32];

    if (fd < 0)
        fd = memfd_create("tcad.conf", MFD_CLOEXEC);
    FUZZ_REQUIRE(ftruncate(fd, 0) == 0 && pwrite(fd, text, bytes, 0) == (ssize_t)bytes);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    int r = tcad_conf_load(path, false, NULL, ret_conf, &errors);
    FUZZ_REQUIRE(r == -ENOMEM || (r == -EINVAL) == (config_errors_total(&errors) > 0));
    config_errors_deinit(&errors);
    return r;
}

static void check_conf(const uint8_t *data, size_t bytes)
{
    const struct config_key *keys[CONFIG_KEYS_MAX];
    struct tcad_conf *conf = NULL, *again = NULL;
    char *text = NULL;
    size_t text_bytes;

    if (load(data, bytes, &conf) < 0)
        return;
    FILE *to = open_memstream(&text, &text_bytes);
    FUZZ_REQUIRE(to);
    tcad_conf_write(conf, to);
    FUZZ_REQUIRE(fclose(to) == 0);
    FUZZ_REQUIRE(load(text, text_bytes, &again) == 0);
    FUZZ_REQUIRE(tcad_conf_diff(conf, again, keys) == 0);
    free(text);
    tcad_conf_free(again);
    tcad_conf_free(conf);
}

static void check_cluster(const uint8_t *data, size_t bytes)
{
    struct config_errors errors = {0};
    struct cluster *cluster = NULL;
    int r = cluster_parse("input", (const char *)data, bytes, &cluster, &errors);

    FUZZ_REQUIRE(r == -ENOMEM || (r == -EINVAL) == (config_errors_total(&errors) > 0));
    for (size_t i = 0; r == 0 && i < cluster->count; i++) {
        const struct cluster_node *node = &cluster->nodes[i];
        FUZZ_REQUIRE(cluster_by_id(cluster, node->id) == node);
        FUZZ_REQUIRE(cluster_by_name(cluster, node->name) == node);
    }
    if (r == 0) {
        char *names = cluster_fold(cluster);
        FUZZ_REQUIRE(names);
        free(names);
    }
    cluster_free(cluster);
    config_errors_deinit(&errors);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    check_conf(data, bytes);
    check_cluster(data, bytes);
    return 0;
}
