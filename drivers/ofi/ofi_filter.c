/*
 * Restricts who may connect, by a packet filter on the provider's listening socket. The provider
 * accepts any connection, so the kernel drops connection attempts from hosts that were not admitted
 * before the provider sees them. The filter checks only the first packet of a connection and needs
 * no privilege. It does not distinguish users of an admitted host.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "drivers/ofi/ofi.h"

enum {
    INSTRUCTIONS_MAX = 2048,
    FLAGS_AT = 13, /* in the TCP header, where the filter's offsets start */
    FLAG_SYN = 0x02,
    FLAG_ACK = 0x10,
    SOURCE_AT_V4 = 12, /* in the IP header */
    SOURCE_AT_V6 = 8,
};

struct program {
    struct sock_filter code[INSTRUCTIONS_MAX];
    unsigned count;
    bool full;
};

static void add(struct program *program, struct sock_filter instruction)
{
    if (program->count < INSTRUCTIONS_MAX)
        program->code[program->count++] = instruction;
    else
        program->full = true;
}

#define ADD(program, ...)      add(program, (struct sock_filter)BPF_STMT(__VA_ARGS__))
#define ADD_JUMP(program, ...) add(program, (struct sock_filter)BPF_JUMP(__VA_ARGS__))

static void accept_packet(struct program *program)
{
    ADD(program, BPF_RET | BPF_K, UINT32_MAX);
}

/* Adjacent hosts share a range. */
static void accept_v4(struct program *program, const struct ofi_host *hosts, size_t count)
{
    ADD(program, BPF_LD | BPF_W | BPF_ABS, (uint32_t)SKF_NET_OFF + SOURCE_AT_V4);
    for (size_t i = 0; i < count; i++) {
        const uint32_t first = hosts[i].word[0];
        while (i + 1 < count && hosts[i + 1].word[0] == hosts[i].word[0] + 1)
            i++;
        ADD_JUMP(program, BPF_JMP | BPF_JGE | BPF_K, first, 0, 2);
        ADD_JUMP(program, BPF_JMP | BPF_JGT | BPF_K, hosts[i].word[0], 1, 0);
        accept_packet(program);
    }
}

static void accept_v6(struct program *program, const struct ofi_host *hosts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (unsigned n = 0; n < 4; n++) {
            ADD(program, BPF_LD | BPF_W | BPF_ABS, (uint32_t)SKF_NET_OFF + SOURCE_AT_V6 + 4 * n);
            ADD_JUMP(program, BPF_JMP | BPF_JEQ | BPF_K, hosts[i].word[n], 0,
                     (uint8_t)(2 * (3 - n) + 1));
        }
        accept_packet(program);
    }
}

/* Attaches the filter. If the kernel rejects it, any host may connect. */
static int apply(struct ofi_filter *filter)
{
    struct program *program = calloc(1, sizeof(*program));
    if (!program)
        return -ENOMEM;
    ADD(program, BPF_LD | BPF_B | BPF_ABS, FLAGS_AT);
    ADD(program, BPF_ALU | BPF_AND | BPF_K, FLAG_SYN | FLAG_ACK);
    ADD_JUMP(program, BPF_JMP | BPF_JEQ | BPF_K, FLAG_SYN, 1, 0);
    accept_packet(program);
    if (!filter->shut && filter->v6)
        accept_v6(program, filter->hosts, filter->count);
    else if (!filter->shut)
        accept_v4(program, filter->hosts, filter->count);
    ADD(program, BPF_RET | BPF_K, 0);

    struct sock_fprog attached = {.len = (uint16_t)program->count, .filter = program->code};
    int r = program->full ? -E2BIG : 0;
    if (r == 0 &&
        setsockopt(filter->fd, SOL_SOCKET, SO_ATTACH_FILTER, &attached, sizeof(attached)) < 0)
        r = -errno;
    if (r < 0)
        setsockopt(filter->fd, SOL_SOCKET, SO_DETACH_FILTER, &(int){0}, sizeof(int));
    filter->in_force = r == 0;
    free(program);
    return r;
}

/* The IP address in a name, in host byte order; false: none, or a wildcard. */
static bool host_of(const uint8_t *name, size_t bytes, struct ofi_host *ret_host, bool *ret_v6)
{
    struct sockaddr_storage address = {0};
    struct ofi_host host = {0};
    memcpy(&address, name, bytes < sizeof(address) ? bytes : sizeof(address));
    if (address.ss_family == AF_INET) {
        host.word[0] = ntohl(((struct sockaddr_in *)&address)->sin_addr.s_addr);
    } else if (address.ss_family == AF_INET6) {
        uint32_t words[4];
        memcpy(words, &((struct sockaddr_in6 *)&address)->sin6_addr, sizeof(words));
        for (unsigned n = 0; n < 4; n++)
            host.word[n] = ntohl(words[n]);
    }
    *ret_host = host;
    *ret_v6 = address.ss_family == AF_INET6;
    return host.word[0] || host.word[1] || host.word[2] || host.word[3];
}

/* libfabric does not report its listening socket: it is the one bound to the endpoint's name. */
static int find_socket(const uint8_t *name, size_t bytes)
{
    DIR *entries = opendir("/proc/self/fd");
    int found = -1;
    for (struct dirent *entry; entries && found < 0 && (entry = readdir(entries));) {
        const int fd = atoi(entry->d_name);
        struct sockaddr_storage own = {0};
        socklen_t own_bytes = sizeof(own), listens_bytes = sizeof(int);
        int listens = 0;
        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &listens_bytes) == 0 && listens &&
            getsockname(fd, (struct sockaddr *)&own, &own_bytes) == 0 && own_bytes <= bytes &&
            memcmp(&own, name, own_bytes) == 0)
            found = fd;
    }
    if (entries)
        closedir(entries);
    return found;
}

void ofi_filter_init(struct ofi_driver *ofi, int backlog)
{
    struct ofi_filter *filter = &ofi->filter;
    const struct ofi_address *own = &ofi->address;
    struct ofi_host host;
    filter->fd = -1;
    if (host_of(own->name, own->name_bytes, &host, &filter->v6))
        filter->fd = find_socket(own->name, own->name_bytes);
    if (filter->fd < 0)
        return;
    apply(filter);
    if (backlog > 0)
        listen(filter->fd, backlog); /* again: changes nothing else */
}

void ofi_filter_deinit(struct ofi_driver *ofi)
{
    free(ofi->filter.hosts);
}

/* The host's index in the sorted list, or where to insert it. */
static size_t index_of(const struct ofi_filter *filter, const struct ofi_host *host)
{
    size_t low = 0, high = filter->count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        int order = 0;
        for (unsigned n = 0; n < 4 && order == 0; n++)
            order = filter->hosts[middle].word[n] < host->word[n]   ? -1
                    : filter->hosts[middle].word[n] > host->word[n] ? 1
                                                                    : 0;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int insert(struct ofi_filter *filter, size_t index, const struct ofi_host *host)
{
    struct ofi_host *hosts =
        reallocarray(filter->hosts, filter->count + 1, sizeof(filter->hosts[0]));
    if (!hosts)
        return -ENOMEM;
    filter->hosts = hosts;
    memmove(&hosts[index + 1], &hosts[index], (filter->count - index) * sizeof(hosts[0]));
    hosts[index] = *host;
    hosts[index].references = 1;
    filter->count++;
    return 0;
}

static int change(struct ofi_filter *filter, const struct ofi_host *host, bool come)
{
    const size_t index = index_of(filter, host);
    const bool known = index < filter->count &&
                       memcmp(filter->hosts[index].word, host->word, sizeof(host->word)) == 0;
    if (come && known) {
        filter->hosts[index].references++;
        return 0;
    }
    if (come) {
        int r = insert(filter, index, host);
        return r < 0 ? r : apply(filter);
    }
    if (!known || --filter->hosts[index].references > 0)
        return 0;
    filter->count--;
    memmove(&filter->hosts[index], &filter->hosts[index + 1],
            (filter->count - index) * sizeof(filter->hosts[0]));
    return apply(filter);
}

int ofi_admit(struct driver *driver, const void *address, size_t address_bytes, bool come)
{
    struct ofi_driver *ofi = ofi_of(driver);
    struct ofi_filter *filter = &ofi->filter;
    struct ofi_address other;
    struct ofi_host host;
    bool v6;
    int r = ofi_address_check(address, address_bytes, &other);
    if (r < 0 || filter->fd < 0)
        return r;
    if (!host_of(other.name, other.name_bytes, &host, &v6) || v6 != filter->v6)
        return -EADDRNOTAVAIL; /* it could not connect to this instance */
    pthread_mutex_lock(&ofi->names_lock);
    r = change(filter, &host, come);
    pthread_mutex_unlock(&ofi->names_lock);
    return r;
}

/* Closes connections that the provider has not accepted yet; it would accept them later. */
static void refuse_waiting(int listening)
{
    const int flags = fcntl(listening, F_GETFL);
    if (flags < 0 || !(flags & O_NONBLOCK))
        return;
    for (int fd; (fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC)) >= 0;)
        close(fd);
}

void ofi_shut(struct driver *driver, bool shut)
{
    struct ofi_driver *ofi = ofi_of(driver);
    if (ofi->filter.fd < 0)
        return;
    pthread_mutex_lock(&ofi->names_lock);
    ofi->filter.shut = shut;
    if (apply(&ofi->filter) == 0 && shut)
        refuse_waiting(ofi->filter.fd);
    pthread_mutex_unlock(&ofi->names_lock);
}
