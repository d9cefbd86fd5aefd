#include "tools/tca-cluster/write.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/common/must.h"
#include "tools/tca-cluster/say.h"

/* Below the range that Linux uses for outgoing connections (from 32768), so that none of them takes
 * a port before its daemon does. */
enum { PORT_FIRST = 20000, PORT_END = 32000 };

/* A socket bound to the port on the loopback; negative: the port is in use. */
static int bind_port(uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* Distinct free ports. Clusters that come up at the same time begin at different ports. */
static int find_ports(unsigned count, uint16_t *ports)
{
    int *fds = must(malloc(count * sizeof(*fds)));
    unsigned found = 0, tried = 0;
    uint32_t place = 0;

    if (getrandom(&place, sizeof(place), 0) < 0)
        place = (uint32_t)getpid();
    for (; found < count && tried < PORT_END - PORT_FIRST; tried++) {
        uint16_t port = (uint16_t)(PORT_FIRST + (place + tried) % (PORT_END - PORT_FIRST));
        fds[found] = bind_port(port);
        if (fds[found] >= 0)
            ports[found++] = port;
    }
    for (unsigned i = 0; i < found; i++)
        close(fds[i]);
    free(fds);
    if (found < count)
        return complain(EADDRINUSE,
                        "only %u ports from %d to %d are free on 127.0.0.1, but %u nodes need one "
                        "each: use a smaller -n",
                        found, PORT_FIRST, PORT_END - 1, count);
    return 0;
}

static FILE *create(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0)
        complain(errno, "cannot write %s: %s", path, strerror(errno));
    return fd < 0 ? NULL : must(fdopen(fd, "w"));
}

static int finish(FILE *to, const char *path)
{
    bool bad = ferror(to);

    if (fclose(to) != 0 || bad)
        return complain(EIO, "cannot write %s: %s", path, strerror(errno));
    return 0;
}

static int write_key(const struct cluster *cluster)
{
    struct path path = cluster_path(cluster->dir, "cluster.key");
    uint8_t key[32];

    if (getrandom(key, sizeof(key), 0) != sizeof(key))
        return complain(EIO, "cannot get random bytes for the cluster key");
    FILE *to = create(path.text);
    if (!to)
        return -EIO;
    for (size_t i = 0; i < sizeof(key); i++)
        fprintf(to, "%02x", key[i]);
    fputc('\n', to);
    return finish(to, path.text);
}

static int write_cluster_file(const struct cluster *cluster, const uint16_t *ports)
{
    struct path path = cluster_path(cluster->dir, "cluster.conf");
    FILE *to = create(path.text);

    if (!to)
        return -EIO;
    fputs("cluster = emulated\n", to);
    for (unsigned node = 0; node < cluster->nodes; node++) {
        unsigned s = (unsigned)((uint64_t)node * cluster->subclusters / cluster->nodes);
        fprintf(to, "node%u id=%u address=127.0.0.1:%u subcluster=", node, node, ports[node]);
        if (cluster->subclusters <= 26)
            fprintf(to, "%c\n", 'a' + (int)s);
        else
            fprintf(to, "s%u\n", s);
    }
    return finish(to, path.text);
}

static int write_node(const struct cluster *cluster, unsigned node)
{
    struct path directory = cluster_node_path(cluster->dir, node, "");
    struct path path = cluster_node_path(cluster->dir, node, "tcad.conf");

    if (mkdir(directory.text, 0700) < 0)
        return complain(errno, "cannot make %s: %s", directory.text, strerror(errno));
    FILE *to = create(path.text);
    if (!to)
        return -EIO;
    fprintf(to,
            "[node]\nid = %u\nname = node%u\ncluster_file = %s/cluster.conf\nruntime_dir = %s\n"
            "state_dir = %s/state\n\n[control]\nsecurity = %s\n",
            node, node, cluster->dir, directory.text, directory.text,
            cluster->plain ? "plain" : "tls");
    if (!cluster->plain)
        fprintf(to, "key_file = %s/cluster.key\n", cluster->dir);
    /* Nodes that share the processors of one machine may be silent for long. The end of a daemon
     * closes its connections, which is noticed at once. */
    fputs("heartbeat_timeout = 30s\n", to);
    fprintf(to, "\n[rails]\ncalibration_file = %s/calibration\nofi_unprotected = %s\n",
            cluster->dir, cluster->private_network ? "yes" : "no");
    if (cluster->boards)
        fprintf(to, "enable = shm peach2 tcp\npeach2_rings = %u\n", cluster->rings);
    fputs("\n[log]\ntarget = stderr\n", to);
    return finish(to, path.text);
}

int write_files(const struct cluster *cluster)
{
    uint16_t *ports = must(malloc(cluster->nodes * sizeof(*ports)));
    int r = find_ports(cluster->nodes, ports);

    if (r == 0)
        r = write_cluster_file(cluster, ports);
    free(ports);
    if (r == 0 && !cluster->plain)
        r = write_key(cluster);
    for (unsigned node = 0; r == 0 && node < cluster->nodes; node++)
        r = write_node(cluster, node);
    return r;
}

int write_overrides(const struct cluster *cluster, char *const *overrides)
{
    struct path path = cluster_path(cluster->dir, "overrides");
    FILE *to = create(path.text);

    if (!to)
        return -EIO;
    for (; overrides && *overrides; overrides++)
        fwrite(*overrides, 1, strlen(*overrides) + 1,
               to); /* includes the NUL, because values may contain line breaks */
    return finish(to, path.text);
}

int read_overrides(const struct cluster *cluster, char ***ret_overrides)
{
    struct path path = cluster_path(cluster->dir, "overrides");
    char **list = must(calloc(1, sizeof(*list)));
    size_t count = 0, room = 0;
    char *entry = NULL;
    FILE *from = fopen(path.text, "re");

    if (!from) {
        free(list);
        return complain(errno, "cannot read %s: %s", path.text, strerror(errno));
    }
    while (getdelim(&entry, &room, '\0', from) > 0) {
        list = must(realloc(list, (count + 2) * sizeof(*list)));
        list[count++] = must(strdup(entry));
        list[count] = NULL;
    }
    free(entry);
    fclose(from);
    *ret_overrides = list;
    return 0;
}

void free_overrides(char **overrides)
{
    for (char **entry = overrides; entry && *entry; entry++)
        free(*entry);
    free(overrides);
}
