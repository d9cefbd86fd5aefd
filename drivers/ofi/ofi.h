/*
 * Internal to the ofi driver. An instance has one RDM endpoint, one address vector and one
 * completion queue.
 *
 * A put takes one of three paths:
 *   DIRECT  Source and target are contiguous: the provider writes from region to region, in pieces.
 *   GATHER  Only the target is contiguous: pieces are packed into staging buffers and written to
 *           the target from there.
 *   RING    The target is not contiguous, or the put is short: segments are written to a ring at
 *           the receiver, whose progress() copies them to the target. This takes one message
 *           instead of two, for two copies. Short puts and noncontiguous sources are copied into a
 *           mirror of the ring and written from there; other segments are written from the source.
 * The last operation of a put is a segment, with or without payload. It raises the notification.
 *
 * Nothing is lost or delivered twice: what is sent to a peer is a sequence of operations (pieces
 * and segments; ofi_wire.h). The receiver processes and counts them in order, and the sender keeps
 * each until it has been counted (drivers/window.h). A put whose bytes are all in the mirror
 * completes at once, any other when its last operation has been counted. The last operation of such
 * a put asks the receiver to report the count (a credit) as soon as it is idle, and so does an
 * operation sent by a flush. Otherwise a credit is sent for several operations, or after a few
 * milliseconds.
 *
 * Operations can be lost with a connection. When the provider reports that, or no count has arrived
 * for a while, the sender requests the count (SYNC) and sends the later operations again. The reply
 * is final, because no earlier connection can deliver anything after it: a provider has one
 * connection at a time between two endpoints and reports completions in order of arrival. When a
 * peer is given up, its owner is told how many puts of which flows had completed but not been
 * counted.
 *
 * Order: the puts of one flow to a peer are posted in order, and the receiver processes operations
 * in order, so a notification never overtakes data if the provider keeps writes in order. If it
 * does not (ordered == false), the last segment of a put waits until the pieces before it have been
 * delivered, and caps.ordered is false. Flows take turns, piece by piece, and a long put has only a
 * few pieces in flight.
 *
 * ofi_quarantine.c describes how memory is freed.
 *
 * Threads: as in driver.h. Memory can be registered, and addresses inserted, in any thread: the
 * endpoint is opened with FI_THREAD_SAFE, and the list of addresses has a lock. A thread of the
 * driver deregisters freed memory (recall.h). Everything else belongs to the polling thread.
 */
#pragma once

#include "drivers/ofi/config.h"
#include "drivers/ofi/ofi_state.h"

/* Counts a completion or message that no peer can have sent. */
static inline void ofi_forged(struct ofi_driver *ofi)
{
    atomic_fetch_add_explicit(&ofi->forged, 1, memory_order_relaxed);
}

/* ofi_open.c */
int ofi_random(void *ret_bytes, size_t bytes);
static inline const struct ofi_config *ofi_config_of(const struct driver_config *config)
{
    static const struct ofi_config defaults;
    return config->own ? config->own : &defaults;
}
int ofi_getinfo(const struct driver_config *config, struct fi_info **ret_info);
bool ofi_info_ordered(const struct fi_info *info);

/* ofi_door.c */
/* Whether the provider accepts any connection: those over the kernel's TCP and UDP do. */
bool ofi_info_unprotected(const struct fi_info *info);
enum { OFI_HOST_MAX = 64 };
/* Resolves an address or host name to a numeric address; -ENOENT: it names an interface. */
int ofi_resolve(const char *address, char ret_host[static OFI_HOST_MAX]);
/* An instance's address for display; "": not an IP address. */
void ofi_name_text(const struct ofi_driver *ofi, const struct ofi_address *address, char *ret_text,
                   size_t text_bytes);
int ofi_open_driver(const struct driver_config *config, const struct driver_events *events,
                    struct driver **ret_driver);
void ofi_close(struct driver *driver);

/* ofi_filter.c */
/* backlog: of ofi_config. */
void ofi_filter_init(struct ofi_driver *ofi, int backlog);
void ofi_filter_deinit(struct ofi_driver *ofi);
int ofi_admit(struct driver *driver, const void *address, size_t address_bytes, bool come);
void ofi_shut(struct driver *driver, bool shut);

/* ofi_memory.c */
int ofi_memory_register(struct ofi_driver *ofi, void *base, uint64_t length_bytes, uint64_t access,
                        struct ofi_memory *ret_memory);
void ofi_memory_close(struct ofi_memory *memory);
/* The remote address by which a peer writes to `at`. */
uint64_t ofi_memory_remote(const struct ofi_driver *ofi, const struct ofi_memory *memory,
                           const uint8_t *at);
/* Maps and registers memory of the descriptor, or anonymous memory (fd < 0). */
int ofi_region_new(struct ofi_driver *ofi, int fd, uint64_t offset_bytes, uint64_t length_bytes,
                   uint64_t access, struct ofi_region **ret_region);
/* Removes the region from the table of keys. */
void ofi_region_forget(struct ofi_driver *ofi, struct ofi_region *region);
/* Whether the key belongs to a region that is not freed, and was sent to a peer. */
bool ofi_region_known(struct ofi_driver *ofi, uint64_t key);
int ofi_region_add(struct driver *driver, const struct driver_memory *memory,
                   struct driver_region **ret_region);
void ofi_region_remove(struct driver *driver, struct driver_region *region);

/* ofi_quarantine.c */
int ofi_quarantine_init(struct ofi_driver *ofi);
/* Call close() before the endpoint is closed, and deinit() after. */
void ofi_quarantine_close(struct ofi_driver *ofi);
void ofi_quarantine_deinit(struct ofi_driver *ofi);
/* Any thread. Frees a region: on return, its memory is no longer written, unless the kernel had no
 * memory to replace the mapping. Late writes go to other memory at the same address. NULL is a
 * no-op. */
void ofi_region_quarantine(struct ofi_driver *ofi, struct ofi_region *region);
/* Asks senders to stop, and releases what no late write can reach. Returns how many regions. */
int ofi_quarantine_run(struct ofi_driver *ofi);
bool ofi_quarantine_waiting(struct ofi_driver *ofi);
/* When to run it next if no message arrives before; UINT64_MAX: never. */
uint64_t ofi_quarantine_due_ns(struct ofi_driver *ofi);
/* Takes ownership of a source that was dropped but may still write. */
void ofi_departed_new(struct ofi_driver *ofi, struct ofi_source *source);
/* This name has a new connection, so that the departed sources with it no longer write. */
void ofi_departed_gone(struct ofi_driver *ofi, const struct ofi_address *address);
/* Process messages. */
void ofi_revoke(struct ofi_driver *ofi, const struct ofi_message *message);
void ofi_revoked(struct ofi_driver *ofi, const struct ofi_message *message);

/* ofi_request.c */
int ofi_requests_init(struct ofi_driver *ofi, uint32_t segment_bytes);
void ofi_requests_deinit(struct ofi_driver *ofi);
/* Takes a free write request for the peer, which reads the put's source (NULL: it does not), with a
 * staging buffer if `staged`. NULL: none is free. */
struct ofi_request *ofi_write_take(struct ofi_driver *ofi, struct ofi_peer *peer,
                                   struct ofi_put *put, bool staged);
void ofi_write_give(struct ofi_driver *ofi, struct ofi_request *request);
/* Detaches a request, which the provider still has, from its peer and put. */
void ofi_write_orphan(struct ofi_request *request);
struct ofi_request *ofi_send_take(struct ofi_driver *ofi, struct ofi_name *to);
void ofi_send_give(struct ofi_driver *ofi, struct ofi_request *request);
int ofi_recv_post(struct ofi_driver *ofi, struct ofi_request *request);
bool ofi_request_known(const struct ofi_driver *ofi, const void *context);

/* ofi_kick.c */
/* Notes the result of posting to this name: -EAGAIN (the provider does not accept it) or other. */
void ofi_name_note(const struct ofi_driver *ofi, struct ofi_name *name, int r);

/* ofi_peer.c */
int ofi_name_take(struct ofi_driver *ofi, const struct ofi_address *address,
                  struct ofi_name **ret_name);
void ofi_name_hold(struct ofi_driver *ofi, struct ofi_name *name);
void ofi_name_give(struct ofi_driver *ofi, struct ofi_name *name);
int ofi_address_check(const void *data, size_t bytes, struct ofi_address *ret_address);
static inline bool ofi_same(const struct ofi_secret *a, const struct ofi_secret *b)
{
    /* in constant time */
    return ((a->word[0] ^ b->word[0]) | (a->word[1] ^ b->word[1])) == 0;
}
int ofi_peer_connect(struct driver *driver, const void *address, size_t address_bytes,
                     struct driver_peer **ret_peer, void *ret_offer, size_t *ret_offer_bytes);
void ofi_peer_disconnect(struct driver *driver, struct driver_peer *peer);
void ofi_peer_fail(struct driver *driver, struct driver_peer *peer, int error);
int ofi_peer_flush(struct driver *driver, struct driver_peer *peer, struct driver_op *op);
void ofi_peer_activate(struct ofi_driver *ofi, struct ofi_peer *peer);
void ofi_peer_deactivate(struct ofi_peer *peer);
/* The next progress() completes its puts. */
void ofi_peer_mark_failed(struct ofi_driver *ofi, struct ofi_peer *peer, int error);
/* Completes all puts and flushes of a failed peer, and tells the owner. */
void ofi_peer_complete_failed(struct ofi_driver *ofi, struct ofi_peer *peer);

/* ofi_link.c: the sender's side of links */
/* Sends requests (HELLO, SYNC), and fails a peer that does not reply for too long. */
void ofi_link_run(struct ofi_driver *ofi, struct ofi_peer *peer, uint64_t now_ns);
/* Operations in flight may have been lost. */
void ofi_link_broken(struct ofi_driver *ofi, struct ofi_peer *peer);
void ofi_link_welcome(struct ofi_driver *ofi, const struct ofi_message *message);
void ofi_link_synced(struct ofi_driver *ofi, const struct ofi_message *message);
void ofi_link_credit(struct ofi_driver *ofi, uint64_t data);
void ofi_link_close(struct ofi_driver *ofi, struct ofi_peer *peer);
/* -EAGAIN: the provider does not accept it; -ENOBUFS: too many messages are in flight. */
int ofi_message_send(struct ofi_driver *ofi, struct ofi_name *to,
                     const struct ofi_message *message);

/* ofi_source.c: the receiver's side */
void ofi_source_hello(struct ofi_driver *ofi, const struct ofi_message *message);
void ofi_source_bye(struct ofi_driver *ofi, const struct ofi_message *message);
void ofi_source_sync(struct ofi_driver *ofi, const struct ofi_message *message);
/* Processes the operations that have arrived. Returns their number. */
int ofi_source_operation(struct ofi_driver *ofi, uint64_t data);
/* Sends credits and WELCOMEs that are due; if idle, also credits that were asked for. Returns the
 * number of sources served. */
int ofi_sources_credit(struct ofi_driver *ofi, bool idle);
/* Whether some must be sent soon. */
bool ofi_sources_urgent(const struct ofi_driver *ofi);
/* Drops the sources of an instance. NULL: all, because this instance closes. */
void ofi_sources_drop(struct ofi_driver *ofi, const struct ofi_secret *cookie);

/* ofi_landing.c */
int ofi_landing_new(struct driver *driver, const struct driver_landing_args *args,
                    struct driver_landing **ret_landing, void *ret_blob, size_t *ret_blob_bytes);
void ofi_landing_free(struct driver *driver, struct driver_landing *landing);
uint64_t ofi_landing_bytes(const struct driver_landing *landing);

/* ofi_put.c */
int ofi_put_prepare(struct driver *driver, const struct driver_put_args *args,
                    struct driver_put **ret_put, struct driver_put_info *ret_info);
void ofi_put_release(struct driver *driver, struct driver_put *put);
void ofi_put_part(struct driver *driver, struct driver_put *put, const struct driver_part *part);
int ofi_put_post(struct driver *driver, struct driver_put *put, struct driver_op *op);
/* The provider no longer has one of the writes that read the put's source. */
static inline void ofi_put_unread(struct ofi_put *put)
{
    put->outstanding--;
    put->base.pending--;
    window_put_check(&put->base);
}
/* Posts operations of the peer's puts, at most about `budget`. Returns their number, and sets
 * peer->blocked. */
int ofi_peer_pump(struct ofi_driver *ofi, struct ofi_peer *peer, unsigned budget);
/* Makes puts to this key of the instance stale: they post nothing more. */
void ofi_puts_revoke(struct ofi_driver *ofi, const struct ofi_secret *cookie, uint64_t key);

/* ofi_write.c */
/* The next three post one operation: 0, -EAGAIN (see peer->blocked), or another error: the peer is
 * unreachable. */
/* The next operation of a put. */
int ofi_write_next(struct ofi_driver *ofi, struct ofi_put *put);
/* An empty segment that asks for the count. */
int ofi_write_ask(struct ofi_driver *ofi, struct ofi_peer *peer);
/* Operation link.again, again. */
int ofi_write_again(struct ofi_driver *ofi, struct ofi_peer *peer);
/* Writes a few bytes, which are copied, with completion data. */
int ofi_write_small(struct ofi_driver *ofi, struct ofi_name *to, uint64_t address, uint64_t key,
                    const void *bytes, size_t count, uint64_t data);
/* Writes to the peer's sink. Returns 0 if there is a connection, or -EAGAIN. */
int ofi_write_probe(struct ofi_driver *ofi, struct ofi_name *name,
                    const struct ofi_address *address);

/* ofi_progress.c */
int ofi_progress(struct driver *driver, unsigned budget);
int ofi_event_fd(struct driver *driver);
int ofi_arm(struct driver *driver);
