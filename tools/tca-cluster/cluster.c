#include "tools/tca-cluster/cluster.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tools/tca-cluster/say.h"

struct path cluster_path(const char *dir, const char *name)
{
    struct path path;

    /* cluster_directory() has reserved room for the names used here. */
    snprintf(path.text, sizeof(path.text), "%s/%s", dir, name);
    return path;
}

struct path cluster_node_path(const char *dir, unsigned node, const char *name)
{
    struct path path;

    snprintf(path.text, sizeof(path.text), "%s/node%u%s%s", dir, node, *name ? "/" : "", name);
    return path;
}

int cluster_directory(const char *argument, char ret_dir[static PATH_MAX])
{
    const char *chosen = argument ? argument : getenv("TCA_CLUSTER_DIR");
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    char dir[PATH_MAX], cwd[PATH_MAX];
    /* The longest name of a socket, because socket addresses have a short limit. */
    const size_t room =
        sizeof(((struct sockaddr_un *)0)->sun_path) - sizeof("/node1023/peach2.sock");
    int n;

    if (chosen && chosen[0] == '/')
        n = snprintf(dir, sizeof(dir), "%s", chosen);
    else if (chosen && chosen[0])
        n = snprintf(dir, sizeof(dir), "%s/%s", getcwd(cwd, sizeof(cwd)) ? cwd : ".", chosen);
    else if (runtime && runtime[0] == '/')
        n = snprintf(dir, sizeof(dir), "%s/tca-cluster", runtime);
    else
        n = snprintf(dir, sizeof(dir), "/tmp/tca-cluster-%u", (unsigned)getuid());

    while (n > 1 && n < PATH_MAX && dir[n - 1] == '/')
        dir[--n] = '\0';
    if (n < 0 || (size_t)n > room)
        return complain(
            ENAMETOOLONG,
            "the directory %.80s... has %d bytes, but sockets in it allow %zu: use a shorter --dir",
            dir, n, room);
    for (const char *p = dir; *p; p++)
        if ((unsigned char)*p <= ' ' || *p == '#' || *p == 0x7f)
            return complain(
                EINVAL, "the directory \"%s\" has blanks or a '#' in its name: use another --dir",
                dir);
    memcpy(ret_dir, dir, (size_t)n + 1);
    return 0;
}

/* The directory must be ours: in /tmp, another user could have made it to read what we write. */
static int check_owner(const char *dir, int fd)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return complain(errno, "cannot examine %s: %s", dir, strerror(errno));
    if (st.st_uid != geteuid())
        return complain(EACCES, "%s belongs to user %u, not to you: use another --dir", dir,
                        (unsigned)st.st_uid);
    if (st.st_mode & 022)
        return complain(EACCES, "other users can write to %s: chmod go-w it, or use another --dir",
                        dir);
    return 0;
}

int cluster_lock(const char *dir, bool create)
{
    for (;;) {
        struct stat locked, named;
        if (create && mkdir(dir, 0700) < 0 && errno != EEXIST)
            return complain(errno, "cannot make %s: %s", dir, strerror(errno));
        int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0 && errno == ENOENT) {
            if (create)
                continue; /* another tca-cluster has removed it meanwhile */
            return -ENOENT;
        }
        if (fd < 0)
            return complain(errno, "cannot open the directory %s: %s", dir, strerror(errno));
        int r = check_owner(dir, fd);
        if (r < 0) {
            close(fd);
            return r;
        }
        if (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK) {
            say("waiting for another tca-cluster that uses %s", dir);
            flock(fd, LOCK_EX);
        }
        if (fstat(fd, &locked) == 0 && stat(dir, &named) == 0 && locked.st_ino == named.st_ino)
            return fd;
        close(fd); /* removed by the former owner of the lock: try again */
    }
}

int cluster_load(const char *dir, struct cluster *ret_cluster)
{
    struct cluster cluster = {0};
    char security[8], network[8];
    unsigned boards;
    struct path path = cluster_path(dir, "state");
    FILE *from = fopen(path.text, "re");

    if (!from && (errno == ENOENT || errno == ENOTDIR))
        return -ENOENT;
    if (!from)
        return complain(errno, "cannot read %s: %s", path.text, strerror(errno));
    int n = fscanf(
        from, "nodes %u subclusters %u security %7s network %7s boards %u rings %u owner %d %llu",
        &cluster.nodes, &cluster.subclusters, security, network, &boards, &cluster.rings,
        &cluster.owner.pid, &cluster.owner.start);
    fclose(from);
    if (n != 8 || cluster.nodes < 1 || cluster.nodes > CLUSTER_NODES_LIMIT ||
        cluster.subclusters < 1 || cluster.subclusters > cluster.nodes || cluster.rings > 2)
        return complain(EINVAL, "%s is damaged: end the processes of this cluster, then remove %s",
                        path.text, dir);
    cluster.plain = strcmp(security, "plain") == 0;
    cluster.private_network = strcmp(network, "private") == 0;
    cluster.boards = boards > 0;
    strcpy(cluster.dir, dir);
    *ret_cluster = cluster;
    return 0;
}

/* Replaces the file atomically, for readers without the lock. */
int cluster_save(const struct cluster *cluster)
{
    struct path path = cluster_path(cluster->dir, "state");
    struct path fresh = cluster_path(cluster->dir, "state.new");
    FILE *to = fopen(fresh.text, "we");

    if (!to)
        return complain(errno, "cannot write %s: %s", fresh.text, strerror(errno));
    fprintf(
        to,
        "nodes %u\nsubclusters %u\nsecurity %s\nnetwork %s\nboards %d\nrings %u\nowner %d %llu\n",
        cluster->nodes, cluster->subclusters, cluster->plain ? "plain" : "tls",
        cluster->private_network ? "private" : "host", cluster->boards, cluster->rings,
        (int)cluster->owner.pid, cluster->owner.start);
    if (fclose(to) != 0 || rename(fresh.text, path.text) < 0)
        return complain(errno, "cannot write %s: %s", path.text, strerror(errno));
    return 0;
}

struct process cluster_daemon(const struct cluster *cluster, unsigned node)
{
    struct process process = {0};

    process_load(cluster_node_path(cluster->dir, node, "pid").text, &process);
    return process;
}

unsigned cluster_alive(const struct cluster *cluster)
{
    unsigned alive = 0;

    for (unsigned node = 0; node < cluster->nodes; node++) {
        struct process process = cluster_daemon(cluster, node);
        alive += process_state(&process) != PROCESS_GONE;
    }
    return alive;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    return remove(path) < 0 && errno != ENOENT ? -1 : 0;
}

static bool is_ours(const char *name)
{
    static const char *const names[] = {"state",       "state.new", "cluster.conf",
                                        "cluster.key", "overrides", "notify"};

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    if (strncmp(name, "calibration", strlen("calibration")) == 0)
        return true; /* including temporary files of an interrupted daemon */
    size_t prefix = strncmp(name, "node", 4) == 0 || strncmp(name, "run.", 4) == 0 ? 4 : 0;
    return prefix && name[prefix] && strspn(name + prefix, "0123456789") == strlen(name + prefix);
}

int cluster_remove(const char *dir)
{
    DIR *entries = opendir(dir);
    int r = 0;

    if (!entries)
        return errno == ENOENT ? 0 : complain(errno, "cannot read %s: %s", dir, strerror(errno));
    for (struct dirent *entry; (entry = readdir(entries));) {
        struct path path = cluster_path(dir, entry->d_name);
        if (is_ours(entry->d_name) &&
            nftw(path.text, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT) < 0 &&
            errno != ENOENT)
            r = complain(errno, "cannot remove %s: %s", path.text, strerror(errno));
    }
    closedir(entries);
    if (r == 0 && rmdir(dir) < 0 && errno == ENOTEMPTY)
        say("%s is kept: other files are in it", dir);
    return r;
}
