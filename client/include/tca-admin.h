/*
 * tca-admin.h: look into a tcad and tell it what to do. This is what tcactl is made of; results are
 * JSON documents, whose shapes tcactl(1) documents. Same rules as tca.h.
 */
#ifndef TCA_ADMIN_H
#define TCA_ADMIN_H

#include "tca.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tca_admin; /* a connection for questions only: costs the daemon no memory segments */

/* socket: as in tca_open_args. The time-out also holds for each question. -ECONNREFUSED: no tcad
 * there; -EACCES: not allowed to. */
TCA_API int tca_admin_open(const char *socket, int64_t timeout_ns, struct tca_admin **ret_admin);
TCA_API struct tca_admin *tca_admin_close(struct tca_admin *admin);

/* Asks: verb is one of status, nodes, topology, sessions, regions, plans, plan, stats, metrics,
 * config, ping, check, reload, drain, calibrate; the last four are for root and the daemon's own
 * user (-EACCES).
 * argument may be NULL. The text (JSON; OpenMetrics for metrics) is the caller's to free(). Returns
 * 0, or 1 when the answer says "degraded". */
TCA_API int tca_admin_ask(struct tca_admin *admin, const char *verb, const char *argument,
                          char **ret_text);

/* Where tca_open() and tca_admin_open() would connect: *ret_why (may be NULL) is "argument",
 * "TCA_SOCKET", "TCA_NODE", "user" or "system". */
TCA_API int tca_socket_path(const char *socket, char *ret_path, size_t path_bytes,
                            const char **ret_why);

/* The environment variables this library reads: name, default and meaning; NULL name at the end.
 * Static. */
struct tca_variable {
    const char *name;
    const char *default_value;
    const char *meaning;
};
TCA_API const struct tca_variable *tca_variables(void);

#ifdef __cplusplus
}
#endif

#endif
