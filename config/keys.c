#include "config/keys.h"

#include <assert.h>
#include <string.h>

#include "config/cluster.h"
#include "config/tcad_conf.h"

#define KIB (1ull << 10)
#define MIB (1ull << 20)
#define GIB (1ull << 30)
#define TIB (1ull << 40)
#define US  1000ull
#define MS  1000000ull
#define S   1000000000ull

static const struct config_choice security[] = {
    {"tls", CONF_SECURITY_TLS}, {"plain", CONF_SECURITY_PLAIN}, {0}};
static const struct config_choice huge_pages[] = {{"off", CONF_HUGE_PAGES_OFF},
                                                  {"try", CONF_HUGE_PAGES_TRY},
                                                  {"require", CONF_HUGE_PAGES_REQUIRE},
                                                  {0}};
static const struct config_choice rails[] = {{"shm", CONF_RAIL_SHM},       {"tcp", CONF_RAIL_TCP},
                                             {"hca", CONF_RAIL_HCA},       {"ofi", CONF_RAIL_OFI},
                                             {"peach2", CONF_RAIL_PEACH2}, {0}};
static const struct config_choice kernel_tls[] = {{"auto", true}, {"no", false}, {0}};
static const struct config_choice no_yes[] = {{"no", false}, {"yes", true}, {0}};
static const struct config_choice calibration[] = {
    {"auto", CONF_CALIBRATION_AUTO}, {"off", CONF_CALIBRATION_OFF}, {0}};
static const struct config_choice log_level[] = {{"error", CONF_LOG_ERROR},
                                                 {"warning", CONF_LOG_WARNING},
                                                 {"info", CONF_LOG_INFO},
                                                 {"debug", CONF_LOG_DEBUG},
                                                 {0}};
static const struct config_choice log_target[] = {
    {"auto", CONF_LOG_AUTO}, {"stderr", CONF_LOG_STDERR}, {"journal", CONF_LOG_JOURNAL}, {0}};

#define KEY(s, n, f) .section = #s, .name = #n, .offset = offsetof(struct tcad_conf, s.f)

const struct config_key config_keys[] = {
    {KEY(node, id, id), .type = CONFIG_NUMBER, .max = CLUSTER_NODES_MAX - 1,
     .default_help = "the id of this node in the cluster file; 0 without one",
     .help = "The number that identifies this node in handles."},
    {KEY(node, name, name), .type = CONFIG_NAME, .default_help = "the host name",
     .help = "This node's name in the cluster file."},
    {KEY(node, cluster_file, cluster_file), .type = CONFIG_PATH, .initial = "", .optional = true,
     .reloadable = true,
     .help = "The cluster file, see cluster.conf(5); none: a cluster of this node only."},
    {KEY(node, runtime_dir, runtime_dir), .type = CONFIG_PATH,
     .default_help = "/run/tcad; for a user's daemon $XDG_RUNTIME_DIR/tcad or /tmp/tcad-UID",
     .help = "The directory of the sockets; lost when the machine restarts."},
    {KEY(node, state_dir, state_dir), .type = CONFIG_PATH,
     .default_help =
         "/var/lib/tcad; for a user's daemon $XDG_STATE_HOME/tcad or ~/.local/state/tcad",
     .help = "The directory of persistent state: calibration results."},

    {KEY(control, socket, socket), .type = CONFIG_PATH, .default_help = "tcad.sock in runtime_dir",
     .help = "The UNIX socket for clients and tcactl."},
    {KEY(control, socket_mode, socket_mode), .type = CONFIG_MODE, .max = 0777, .initial = "0666",
     .help = "Permissions of the socket."},
    {KEY(control, private, is_private), .type = CONFIG_CHOICE, .choices = no_yes, .initial = "no",
     .reloadable = true,
     .help = "Show users only their own sessions, regions, plans and published names."},
    {KEY(control, listen, listen), .type = CONFIG_ADDRESS, .port = CONFIG_PORT_DEFAULT,
     .optional = true, .default_help = "this node's address in the cluster file; none without one",
     .help = "The address and port for other daemons."},
    {KEY(control, security, security), .type = CONFIG_CHOICE, .choices = security, .initial = "tls",
     .help =
         "The protection of connections between daemons: TLS 1.3 with the cluster key, or none."},
    {KEY(control, key_file, key_file), .type = CONFIG_PATH, .initial = "", .optional = true,
     .help = "The cluster key; required for tls with other nodes; readable by its owner only."},
    {KEY(control, heartbeat_interval, heartbeat_interval_ns), .type = CONFIG_DURATION,
     .min = 10 * MS, .max = 600 * S, .initial = "1s", .reloadable = true,
     .help = "The interval of heartbeats on a silent connection to another daemon."},
    {KEY(control, heartbeat_timeout, heartbeat_timeout_ns), .type = CONFIG_DURATION, .min = 20 * MS,
     .max = 3600 * S, .initial = "4s", .reloadable = true,
     .help = "The silence after which a node counts as down; at least twice the interval."},
    {KEY(control, request_timeout, request_timeout_ns), .type = CONFIG_DURATION, .min = 10 * MS,
     .max = 3600 * S, .initial = "10s", .reloadable = true,
     .help = "The time-out of requests to other daemons."},

    {KEY(memory, base, base), .type = CONFIG_POINTER, .min = 64 * GIB, .max = 0x7e0000000000,
     .multiple = 2 * MIB, .initial = "0x200000000000",
     .help = "The start of the address range reserved for regions, the same in every process."},
    {KEY(memory, reserved, reserved_bytes), .type = CONFIG_BYTES, .min = 16 * MIB, .max = 96 * TIB,
     .multiple = 2 * MIB, .initial = "32T",
     .help = "The length of that range: addresses, not memory."},
    {KEY(memory, region_bytes, region_bytes), .type = CONFIG_BYTES, .min = MIB, .max = 64 * TIB,
     .reloadable = true, .default_help = "three quarters of the machine's memory",
     .help = "Limit on the memory of all regions of this node."},
    {KEY(memory, region_bytes_per_user, region_bytes_per_user), .type = CONFIG_BYTES, .min = MIB,
     .max = 64 * TIB, .reloadable = true,
     .default_help = "half of the machine's memory, at most region_bytes",
     .help = "Limit on the memory of one user's regions."},
    {KEY(memory, region_bytes_per_session, region_bytes_per_session), .type = CONFIG_BYTES,
     .min = MIB, .max = 64 * TIB, .reloadable = true, .default_help = "region_bytes_per_user",
     .help = "Limit on the memory of one client's regions."},
    {KEY(memory, huge_pages, huge_pages), .type = CONFIG_CHOICE, .choices = huge_pages,
     .initial = "try", .reloadable = true,
     .help = "Huge pages for new regions: none; transparent ones where possible; or reserved ones, "
             "without which allocations fail."},

    {KEY(limits, sessions, sessions), .type = CONFIG_NUMBER, .min = 1, .max = 65536,
     .initial = "4096", .reloadable = true, .help = "Limit on connected clients."},
    {KEY(limits, sessions_per_user, sessions_per_user), .type = CONFIG_NUMBER, .min = 1,
     .max = 65536, .initial = "2048", .reloadable = true,
     .help = "Limit on connected clients of one user."},
    {KEY(limits, regions_per_session, regions_per_session), .type = CONFIG_NUMBER, .min = 1,
     .max = 1 << 20, .initial = "4096", .reloadable = true,
     .help = "Limit on regions of one client."},
    {KEY(limits, plans_per_session, plans_per_session), .type = CONFIG_NUMBER, .min = 1,
     .max = 1 << 20, .initial = "4096", .reloadable = true,
     .help = "Limit on plans of one client."},
    {KEY(limits, steps_per_session, steps_per_session), .type = CONFIG_NUMBER, .min = 1,
     .max = 1 << 26, .initial = "1M", .reloadable = true,
     .help = "Limit on steps of all plans of one client."},
    {KEY(limits, pairs_per_session, pairs_per_session), .type = CONFIG_NUMBER, .min = 1,
     .max = 1024, .initial = "64", .reloadable = true,
     .help = "Limit on connections of one client to clients of other nodes. One that no plan uses "
             "makes room for another."},
    {KEY(limits, groups_per_user, groups_per_user), .type = CONFIG_NUMBER, .min = 1, .max = 65536,
     .initial = "1024", .reloadable = true, .help = "Limit on groups of one user."},
    {KEY(limits, published_per_group, published_per_group), .type = CONFIG_NUMBER, .min = 1,
     .max = 1 << 24, .initial = "64K", .reloadable = true,
     .help = "Limit on handles published in one group."},
    {KEY(limits, plan_bytes_per_session, plan_bytes_per_session), .type = CONFIG_BYTES, .min = MIB,
     .max = TIB, .initial = "256M", .reloadable = true,
     .help = "Limit on the daemon's memory for the plans of one client."},
    {KEY(limits, bytes_per_user, bytes_per_user), .type = CONFIG_BYTES, .min = MIB, .max = 64 * TIB,
     .reloadable = true, .default_help = "a sixteenth of the machine's memory",
     .help = "Limit on the daemon's memory for one user, without the memory of regions."},
    {KEY(limits, bytes, bytes), .type = CONFIG_BYTES, .min = MIB, .max = 64 * TIB,
     .reloadable = true, .default_help = "an eighth of the machine's memory",
     .help = "Limit on the daemon's memory for all users, without the memory of regions."},

    {KEY(engine, threads, threads), .type = CONFIG_NUMBER, .min = 1, .max = ENGINES_MAX,
     .initial = "1",
     .help =
         "Number of engine threads, among which the sessions are divided; more than 1 only with "
         "the rails shm and tcp."},
    {KEY(engine, spin, spin_ns), .type = CONFIG_DURATION, .max = S, .initial = "50us",
     .reloadable = true, .help = "How long an idle engine thread polls before it begins to yield."},
    {KEY(engine, yield, yield_ns), .type = CONFIG_DURATION, .max = S, .initial = "100us",
     .reloadable = true,
     .help = "How long it then yields its core before it sleeps; less if another process "
             "computes there."},
    {KEY(engine, cpu, cpus), .type = CONFIG_CPUS, .initial = "", .optional = true,
     .help = "Processors for the engine threads; none: all."},

    {KEY(rails, enable, enable), .type = CONFIG_CHOICES, .choices = rails, .initial = "shm tcp",
     .help = "Drivers to use."},
    {KEY(rails, tcp_address, tcp_address), .type = CONFIG_WORD, .optional = true,
     .default_help = "this node's address in the cluster file",
     .help = "The local address, host name or interface on which the rail tcp listens: on all "
             "addresses that it has."},
    {KEY(rails, tcp_port, tcp_port), .type = CONFIG_NUMBER, .max = UINT16_MAX, .initial = "0",
     .help = "The port on which the rail tcp listens, for firewalls; 0: any free port."},
    {KEY(rails, tcp_security, tcp_security), .type = CONFIG_CHOICE, .choices = security,
     .initial = "tls",
     .help =
         "Whether data that other nodes put to this node over the rail tcp is encrypted. Either "
         "way, only daemons of the cluster can connect."},
    {KEY(rails, tcp_kernel_tls, tcp_kernel_tls), .type = CONFIG_CHOICE, .choices = kernel_tls,
     .initial = "auto",
     .help = "Whether the kernel encrypts what the rail tcp sends and decrypts what it receives, "
             "on this node: auto: if it can (CONFIG_TLS), else tcad and the processes do; no: they "
             "do."},
    {KEY(rails, ofi_provider, ofi_provider), .type = CONFIG_WORD, .initial = "tcp",
     .optional = true,
     .help = "The libfabric provider; none: libfabric's first choice. fi_info -l lists them."},
    {KEY(rails, ofi_address, ofi_address), .type = CONFIG_WORD, .optional = true,
     .default_help = "this node's address in the cluster file",
     .help = "The local address, host name or interface for libfabric; none: any."},
    {KEY(rails, ofi_port, ofi_port), .type = CONFIG_NUMBER, .max = UINT16_MAX, .initial = "0",
     .help = "The TCP port on which libfabric listens, for firewalls; 0: any free port."},
    {KEY(rails, ofi_unprotected, ofi_unprotected), .type = CONFIG_CHOICE, .choices = no_yes,
     .initial = "no",
     .help = "Use ofi over a provider without protection (tcp, net, sockets, udp): anyone who "
             "reaches its port can crash this daemon, forge notifications and alter data."},
    {KEY(rails, peach2_board, peach2_board), .type = CONFIG_PATH,
     .default_help = "peach2.sock in runtime_dir", .help = "The PEACH2 board's control socket."},
    {KEY(rails, peach2_rings, peach2_rings), .type = CONFIG_NUMBER, .max = 2, .initial = "0",
     .help = "The cabling of the sub-cluster's boards: one ring, or two joined by rungs; "
             "0: two for 8 or 16 nodes, else one."},
    {KEY(rails, peach2_window, peach2_window), .type = CONFIG_BYTES, .min = 16 * MIB,
     .max = 512 * GIB, .initial = "512G",
     .help = "How much memory of this node its PEACH2 board maps at a time; the board has 512G."},
    {KEY(rails, calibration, calibration), .type = CONFIG_CHOICE, .choices = calibration,
     .initial = "auto",
     .help =
         "Measure the rails at the first start and keep the result, or use built-in estimates."},
    {KEY(rails, calibration_file, calibration_file), .type = CONFIG_PATH,
     .default_help = "calibration in state_dir", .help = "The file that keeps the result."},
    {KEY(rails, segment, segment_bytes), .type = CONFIG_BYTES, .min = 4 * KIB, .max = 16 * MIB,
     .multiple = 4 * KIB, .initial = "128K",
     .help = "The size of the segments in which gathered data travels."},
    {KEY(rails, stripe, stripe_bytes), .type = CONFIG_BYTES, .max = TIB, .initial = "1M",
     .reloadable = true,
     .help = "The size from which a put is divided among the rails of one driver that lead to its "
             "node; 0: never."},
    {KEY(rails, return_after, return_after_ns), .type = CONFIG_DURATION, .max = 3600 * S,
     .initial = "2s", .reloadable = true,
     .help = "How long a lost rail must lead to a node again before plans return to it; "
             "longer for a rail that is lost repeatedly. 0: plans do not return."},

    {KEY(dcfa, device, device), .type = CONFIG_WORD, .initial = "auto", .optional = true,
     .help =
         "The RDMA device of offload processors, as NAME or NAME:PORT; loop: none, tcad moves the "
         "data in software, within this node; auto: a device with an active port, else loop; none: "
         "no offload processors."},
    {KEY(dcfa, direct, direct), .type = CONFIG_CHOICE, .choices = no_yes, .initial = "no",
     .help =
         "Whether offload processors drive the queues of soft-RoCE devices themselves. Each then "
         "has a context of the device, in which it can also create other objects."},

    {KEY(metrics, listen, listen), .type = CONFIG_ADDRESS, .initial = "", .optional = true,
     .help = "The address and port that serve OpenMetrics over HTTP; none: off."},

    {KEY(log, level, level), .type = CONFIG_CHOICE, .choices = log_level, .initial = "info",
     .reloadable = true, .help = "The lowest severity to log."},
    {KEY(log, target, target), .type = CONFIG_CHOICE, .choices = log_target, .initial = "auto",
     .help = "The destination; auto: the journal when started by systemd, else standard error."},
};

const size_t config_key_count = sizeof(config_keys) / sizeof(*config_keys);
static_assert(sizeof(config_keys) / sizeof(*config_keys) <= CONFIG_KEYS_MAX,
              "callers have room for CONFIG_KEYS_MAX");

const struct config_key *config_key_find(const char *section, const char *name)
{
    for (size_t i = 0; i < config_key_count; i++)
        if (strcmp(config_keys[i].section, section) == 0 && strcmp(config_keys[i].name, name) == 0)
            return &config_keys[i];
    return NULL;
}

const struct config_key *config_key_at(size_t offset)
{
    for (size_t i = 0; i < config_key_count; i++)
        if (config_keys[i].offset == offset)
            return &config_keys[i];
    return NULL;
}
