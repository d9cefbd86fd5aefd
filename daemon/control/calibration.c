/* Calibrates on the first start (no file yet) and at tcactl's request, and stores the result. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/base/worker.h"
#include "daemon/control/admin.h"
#include "daemon/control/calibration.h"
#include "daemon/engine/engine.h"
#include "daemon/rails/calibrate.h"
#include "daemon/rails/fabric.h"
#include "daemon/rails/link.h"
#include "daemon/rails/rails.h"
#include "daemon/tcad.h"
#include "proto/load.h"

enum { OWN, NEIGHBOUR, ENDS }; /* ends of routes from this node */

/* Of a rail whose device supports only the engine's instance. */
struct route {
    struct link *link;        /* NULL: none */
    struct driver_peer *peer; /* NULL: it cannot be connected */
};

struct run {
    struct tcad *tcad;
    struct admin_reply *reply; /* NULL: not requested by a client */
    struct cost_table table;
    int error[RAIL_SLOTS][SEAT_COUNT];
    struct rail beside[RAIL_SLOTS]; /* second instances, opened for the calibration */
    struct route routes[ENDS][RAIL_SLOTS];
    unsigned connected; /* of them, counted end by end */
    struct link_wait wait;
    char path[4096];
    int write_error;
};

static int measure(struct run *run, unsigned rail, struct cost_parameters *ret_parameters)
{
    const struct driver_config config = rail_config(&run->beside[rail]);
    struct calibrate_subject subject = {.ops = run->beside[rail].ops, .config = &config};
    struct engine *engine = run->tcad->engine;
    if (!engine_driver_caps(engine, rail)->single)
        return calibrate_driver(&subject, ret_parameters, &run->table.spread);
    struct calibrate_shared shared = {engine, engine_driver(engine, rail),
                                      run->routes[OWN][rail].peer, NULL};
    if (!shared.peer)
        return run->error[rail][SEAT_DAEMON];
    if (shared.driver->ops->fabric)
        shared.neighbour = run->routes[NEIGHBOUR][rail].peer;
    subject.shared = &shared;
    return calibrate_driver(&subject, ret_parameters, &run->table.spread);
}

/* Over connections of processes. */
static int measure_pairs(struct run *run, unsigned rail, struct cost_parameters *ret_parameters)
{
    const struct rail *at = &run->beside[rail];
    const struct calibrate_seat seat = {
        .seat = at->ops->pairs->seat,
        .device = at->device,
        .device_bytes = at->device_bytes,
        .encrypts = at->driver == DRIVER_TCP && !at->own.tcp.plain,
        .kernel = engine_driver_caps(run->tcad->engine, rail)->kernel_tls,
    };
    const struct driver_config config = rail_config(at);
    const struct calibrate_subject subject = {.ops = at->ops, .config = &config, .seat = &seat};
    return calibrate_driver(&subject, ret_parameters, &run->table.spread);
}

/* Between processes of this node. */
static int measure_shm(struct run *run, struct cost_parameters *ret_parameters)
{
    const struct driver_config config = {.segment_bytes = 0}; /* a put is copied at once */
    const struct calibrate_subject subject = {
        .ops = run->beside[RAIL_SHM].ops, .config = &config, .shares = true};
    return calibrate_driver(&subject, ret_parameters, &run->table.spread);
}

/* Takes what was measured in one thread where that is less. */
static void finish_shm(struct cost_parameters *client, struct cost_parameters one_thread,
                       double line_ns)
{
    calibrate_add_ns(&one_thread, line_ns); /* to the other process */
    calibrate_add_ns(client, -line_ns);     /* it was measured there and back */
    calibrate_same(client, &one_thread);
}

/* Runs in the calibration thread. */
static void work(void *context)
{
    struct run *run = context;
    const double line_ns = calibrate_line_ns();
    for (unsigned rail = 1; rail <= run->tcad->rails->last; rail++) {
        struct cost_parameters *at = run->table.rails[rail].at, parameters;
        int *error = run->error[rail];
        if (!engine_driver(run->tcad->engine, rail))
            continue;
        if (rail == RAIL_SHM)
            error[SEAT_CLIENT] = measure_shm(run, &at[SEAT_CLIENT]);
        else if (run->beside[rail].ops->pairs)
            error[SEAT_CLIENT] = measure_pairs(run, rail, &at[SEAT_CLIENT]);
        error[SEAT_DAEMON] = measure(run, rail, &parameters);
        if (error[SEAT_DAEMON] < 0)
            continue;
        if (at[SEAT_CLIENT].valid && rail == RAIL_SHM)
            finish_shm(&at[SEAT_CLIENT], parameters, line_ns);
        else if (at[SEAT_CLIENT].valid)
            calibrate_same(&at[SEAT_CLIENT], &parameters);
        calibrate_add_ns(&parameters, 2 * line_ns); /* from a process to the engine, and to one */
        at[SEAT_DAEMON] = parameters;
    }
    run->write_error = cost_write(run->path, &run->table);
}

static double bytes_per_ns(const struct cost_parameters *parameters, unsigned size)
{
    return (double)cost_size_bytes(size) / parameters->put_ns[size];
}

static json_t *document(const struct run *run)
{
    json_t *rails = json_array();
    for (unsigned rail = 1; rail <= run->tcad->rails->last; rail++) {
        for (int seat = 1; seat < SEAT_COUNT; seat++) {
            const struct cost_parameters *p = &run->table.rails[rail].at[seat];
            if (run->error[rail][seat] < 0)
                json_array_append_new(rails, json_pack("{s:s, s:s, s:s, s:b, s:s}", "rail",
                                                       rail_name(run->tcad, rail), "driver",
                                                       rail_driver(run->tcad, rail), "seat",
                                                       seat_name(seat), "valid", 0, "error",
                                                       strerror(-run->error[rail][seat])));
            if (!p->valid)
                continue;
            json_array_append_new(
                rails, json_pack("{s:s, s:s, s:s, s:b, s:f, s:f, s:f, s:f, s:f}", "rail",
                                 rail_name(run->tcad, rail), "driver", rail_driver(run->tcad, rail),
                                 "seat", seat_name(seat), "valid", 1, "latency_ns",
                                 cost_latency_ns(p), "hop_ns", p->hop_ns, "block_ns", p->block_ns,
                                 "small_gb_per_s", bytes_per_ns(p, COST_64_KIB), "large_gb_per_s",
                                 bytes_per_ns(p, COST_4_MIB)));
        }
    }
    return json_pack("{s:s, s:f, s:f, s:b, s:o}", "path", run->path, "load", run->table.load,
                     "spread", run->table.spread, "disturbed", run->table.load > LOAD_BUSY, "rails",
                     rails);
}

static void end(struct run *run)
{
    for (unsigned i = 0; run && i < ENDS * RAIL_SLOTS; i++)
        link_unref(run->routes[i / RAIL_SLOTS][i % RAIL_SLOTS].link);
    free(run);
}

static void done(void *context)
{
    struct run *run = context;
    struct tcad *tcad = run->tcad;
    bool failed = false;
    for (unsigned rail = 1; rail <= run->tcad->rails->last; rail++) {
        for (int seat = 1; seat < SEAT_COUNT; seat++) {
            if (run->error[rail][seat] == 0)
                continue;
            failed = true;
            log_warning(NULL,
                        "rail %s could not be calibrated in the %s's seat: %s: the cost model will "
                        "not choose it there",
                        rail_name(run->tcad, rail), seat_name(seat),
                        strerror(-run->error[rail][seat]));
        }
    }
    if (run->write_error < 0)
        log_warning(NULL, "calibration: %s: %s: the rails will be measured again at the next start",
                    run->path, strerror(-run->write_error));
    tcad->costs = run->table;
    tcad->calibrated = true;
    if (run->write_error == 0)
        log_info(NULL, "calibrated the rails: %s", run->path);
    if (run->table.load > LOAD_BUSY)
        log_warning(NULL,
                    "the rails were calibrated under a load of %.1f per processor, and times of "
                    "like puts differed by a factor of %.1f: calibrate again when the machine is "
                    "quiet (tcactl calibrate; the next start does it)",
                    run->table.load, run->table.spread);
    if (run->reply)
        admin_reply_document(run->reply, document(run), failed);
    end(run);
}

static void dropped(void *context)
{
    struct run *run = context;
    if (run->reply)
        admin_reply_fail(run->reply, -ECANCELED, "tcad is ending");
    end(run);
}

static void name_rails(const struct tcad *tcad, struct cost_table *table)
{
    for (unsigned rail = 1; rail <= tcad->rails->last; rail++)
        snprintf(table->rails[rail].name, sizeof(table->rails[rail].name), "%s",
                 rail_name(tcad, rail));
}

static void fail(struct run *run)
{
    if (run->reply)
        admin_reply_fail(run->reply, -ENOMEM, "out of memory for the calibration");
    end(run);
}

static void connect_rest(struct run *run);

static void route_connected(struct run *run, int status)
{
    const unsigned rail = run->connected % RAIL_SLOTS;
    struct route *route = &run->routes[run->connected / RAIL_SLOTS][rail];
    if (status == 0)
        route->peer = route->link->peer;
    else if (route->link && run->connected < RAIL_SLOTS) /* the neighbour is optional */
        run->error[rail][SEAT_DAEMON] = status;
    run->connected++;
}

static void link_done(void *context, int status, const char *text)
{
    struct run *run = context;
    if (status == -ECANCELED) {
        dropped(run);
        return;
    }
    route_connected(run, status);
    connect_rest(run);
}

/* Then measures. */
static void connect_rest(struct run *run)
{
    while (run->connected < ENDS * RAIL_SLOTS) {
        struct link *link =
            run->routes[run->connected / RAIL_SLOTS][run->connected % RAIL_SLOTS].link;
        int r = link ? link_connect(link, &run->wait) : -ENETDOWN;
        if (r == -EINPROGRESS)
            return;
        route_connected(run, r);
    }
    if (worker_submit(run->tcad->calibrator, 0, work, done, dropped, run) < 0)
        fail(run);
}

static void begin(struct tcad *tcad, struct admin_reply *reply)
{
    struct run *run = calloc(1, sizeof(*run));
    if (run) {
        run->tcad = tcad;
        run->reply = reply;
        run->wait = (struct link_wait){.done = link_done, .context = run};
        name_rails(tcad, &run->table);
        run->table.load = load_per_processor();
        snprintf(run->path, sizeof(run->path), "%s", tcad->conf->rails.calibration_file);
        for (unsigned rail = 1; rail <= tcad->rails->last; rail++) {
            const struct driver_caps *caps = engine_driver_caps(tcad->engine, rail);
            run->beside[rail] = *rail_at(tcad, rail);
            rail_leave_port(&run->beside[rail]);
            if (!caps || !caps->single)
                continue;
            int neighbour = fabric_neighbour(tcad, rail);
            run->error[rail][SEAT_DAEMON] = -ENETDOWN;
            run->routes[OWN][rail].link = link_get(tcad->links, tcad->node, rail, tcad->engine);
            run->routes[NEIGHBOUR][rail].link =
                neighbour < 0 ? NULL
                              : link_get(tcad->links, (uint32_t)neighbour, rail, tcad->engine);
        }
    }
    /* In a separate thread: it takes seconds, and much longer if a neighbour's board hangs. */
    if (run && !tcad->calibrator)
        worker_new(tcad->loop, "tcad-calibrate", 1, &tcad->calibrator);
    if (run && tcad->calibrator)
        connect_rest(run);
    else if (run)
        fail(run);
    else if (reply)
        admin_reply_fail(reply, -ENOMEM, "out of memory for the calibration");
}

void admin_calibrate(struct tcad *tcad, struct admin_reply *reply)
{
    begin(tcad, reply);
}

void calibration_start(struct tcad *tcad)
{
    const char *why;
    unsigned line;
    name_rails(tcad, &tcad->costs);
    int r = cost_read(tcad->conf->rails.calibration_file, &tcad->costs, &why, &line);
    if (r == 0) {
        tcad->calibrated = true;
        if (tcad->costs.load > LOAD_BUSY && load_per_processor() < LOAD_QUIET &&
            tcad->conf->rails.calibration == CONF_CALIBRATION_AUTO)
            begin(tcad, NULL); /* the old costs serve until it is done */
        return;
    }
    if (r != -ENOENT)
        log_warning(NULL, "%s:%u: %s: the file is ignored", tcad->conf->rails.calibration_file,
                    line, r == -EINVAL ? why : strerror(-r));
    if (tcad->conf->rails.calibration == CONF_CALIBRATION_AUTO)
        begin(tcad, NULL);
}
