/*
 * tca-admin.h: query and control a tcad. tcactl is built on this interface. Results are JSON
 * documents, which tcactl(1) describes. Results, errors and threads: as in tca.h.
 */
#ifndef TCA_ADMIN_H
#define TCA_ADMIN_H

#include "tca.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tca_admin; /* an administrative connection: needs no shared memory in the daemon */

/* Connects to a tcad. socket: as in tca_open_args. timeout_ns limits this call and each request.
 * -ECONNREFUSED: no tcad answers; -EACCES: permission denied. */
TCA_API int tca_admin_open(const char *socket, int64_t timeout_ns, struct tca_admin **ret_admin);
TCA_API struct tca_admin *tca_admin_close(struct tca_admin *admin);

/* Sends a request. verb: status, nodes, topology, sessions, regions, plans, plan, stats, metrics,
 * config, ping, check, reload, drain or calibrate; the last four require root or the daemon's own
 * user (-EACCES). argument may be NULL. The caller frees the text (JSON; OpenMetrics for metrics)
 * with free(). Returns 0, or 1 if the reply reports a degraded state. */
TCA_API int tca_admin_ask(struct tca_admin *admin, const char *verb, const char *argument,
                          char **ret_text);

/* Returns the path of the socket to which tca_open() and tca_admin_open() would connect. ret_why
 * may be NULL; *ret_why is the origin of the path: "argument", "TCA_SOCKET", "TCA_NODE",
 * "user" or "system" (static). */
TCA_API int tca_socket_path(const char *socket, char *ret_path, size_t path_bytes,
                            const char **ret_why);

/* Returns the environment variables that the library reads. The last entry has a NULL name.
 * Static. */
struct tca_variable {
    const char *name;
    const char *default_value;
    const char *meaning;
};
TCA_API const struct tca_variable *tca_variables(void);

/* Calls `found` for each variable of the environment whose name begins with TCA_ and that nothing
 * reads; similar: the name that may have been meant, or NULL. Names of 64 bytes and more, and those
 * of the test suite (TCA_TEST_*, TCA_VM_*), are passed over. tca_open() warns of them. */
TCA_API void tca_variables_unknown(void (*found)(void *context, const char *name,
                                                 const char *similar),
                                   void *context);

/* A copy mode or a rail that plans of this user have found by trial; see TCA_TUNE in tca(7). Needs
 * no tcad. */
struct tca_wisdom {
    char key[33]; /* identifies layouts and processor, and for rails and seats the nodes, in
                     hexadecimal */
    uint64_t bytes;
    uint32_t blocks;
    uint32_t distance; /* class of the distance to the receiver; 0: near, or not used */
    enum tca_copy_method copy_method; /* TCA_COPY_NONE: this is a rail or a seat */
    enum tca_seat seat;               /* TCA_SEAT_ANY: this is a rail or a copy mode */
    uint32_t stream;                  /* 1: with stores that bypass the caches */
    uint32_t piece_bytes;             /* of the ring; 0: other modes */
    double ns;                        /* from start to start, when it was found */
    char rail[TCA_RAIL_NAME_BYTES];   /* "": this is a copy mode; also that of a seat */
    double load;                      /* for each processor, when the run that found it ended */
    uint32_t disturbed;               /* 1: too high; when it is low, plans try again */
};

/* Reads the wisdom file; the caller frees *ret_path and *ret_entries with free(). Without a file,
 * there are no entries. -EPERM, -EINVAL: the file is not used; -ENODATA: TCA_WISDOM is none. */
TCA_API int tca_wisdom_read(char **ret_path, struct tca_wisdom **ret_entries, size_t *ret_count);
/* Removes the wisdom file. */
TCA_API int tca_wisdom_clear(void);

#ifdef __cplusplus
}
#endif

#endif
