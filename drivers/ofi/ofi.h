/*
 * Inside the ofi driver. One RDM endpoint per instance, one address vector, one completion queue.
 *
 * How a put travels:
 *   DIRECT  both sides contiguous: written from region to region by the provider, in pieces
 *   GATHER  the target is contiguous: packed here into bounce buffers, which are written there
 *   RING    the target is not, or the put is short: segments go into a ring that the receiver keeps
 *           for us, and its progress() scatters them: one message instead of two, for two copies;
 *           short puts and what is not contiguous here are copied into a mirror of the ring, the
 *           rest is written from where it is
 * The last unit of a put is a segment, with or without data; working on it raises the notification.
 *
 * Nothing is lost, and nothing arrives twice: what is sent to a peer is a sequence of units (pieces
 * and segments; ofi_wire.h), the receiver counts those that it has worked on, in order, and the
 * sender keeps each until it knows that it was counted. A put whose bytes are in the mirror is done
 * at once, any other when its last unit was counted. The last unit of such a put asks the receiver
 * to say the count (a credit) as soon as it has nothing better to do, and so does a unit that a
 * flush sends; else a credit comes for many units, or after a few milliseconds.
 *
 * A connection that breaks takes with it what was on its way: when the provider says so, or no count
 * has come for a while, the sender asks for it (SYNC), and sends again what comes after it. The
 * answer says all, because by then no earlier connection can deliver anything: a provider has one at
 * a time between two endpoints, and what it reports is in the order of the arrival. When a peer is
 * given up, its owner is told how many puts of which flows were complete and not yet counted.
 *
 * Order: the puts of one flow to a peer are posted in order, and the receiver works on units in
 * order, so a notification never overtakes data as long as the provider keeps writes in order. Where
 * it does not (ordered == false), the last segment of a put waits until the pieces before it are
 * delivered, and caps.ordered is false. Flows take turns, piece by piece, and a long put has only a
 * few pieces in flight.
 *
 * Memory that was freed: ofi_quarantine.c.
 *
 * Threads: as in driver.h. Registering memory and inserting addresses may happen in any thread; the
 * endpoint is opened FI_THREAD_SAFE, and the list of addresses has a lock. Everything else belongs
 * to the thread that polls.
 */
#pragma once

#include "drivers/ofi/ofi_state.h"

/* Something that no peer can have sent. */
static inline void ofi_forged(struct ofi_driver *ofi)
{
    atomic_fetch_add_explicit(&ofi->forged, 1, memory_order_relaxed);
}

/* ofi_open.c */
int ofi_random(void *ret_bytes, size_t bytes);
int ofi_getinfo(const struct driver_config *config, struct fi_info **ret_info);
bool ofi_info_ordered(const struct fi_info *info);

/* ofi_door.c */
/* Over the kernel's TCP or UDP: these providers ask nobody who they are. */
bool ofi_info_unprotected(const struct fi_info *info);
enum { OFI_HOST_MAX = 64 };
/* The numeric address that is meant; -ENOENT: none, it names an interface. */
int ofi_resolve(const char *address, char ret_host[static OFI_HOST_MAX]);
/* An instance's address for people; "": it is not one of IP. */
void ofi_name_text(const struct ofi_driver *ofi, const struct ofi_address *address, char *ret_text,
                   size_t text_bytes);
int ofi_open_driver(const struct driver_config *config, const struct driver_events *events,
                    struct driver **ret_driver);
void ofi_close(struct driver *driver);

/* ofi_filter.c */
void ofi_filter_init(struct ofi_driver *ofi);
void ofi_filter_deinit(struct ofi_driver *ofi);
int ofi_admit(struct driver *driver, const void *address, size_t address_bytes, bool come);
void ofi_shut(struct driver *driver, bool shut);

/* ofi_memory.c */
int ofi_memory_register(struct ofi_driver *ofi, void *base, uint64_t length_bytes, uint64_t access,
                        struct ofi_memory *ret_memory);
void ofi_memory_close(struct ofi_memory *memory);
/* What a peer has to name to write here. */
uint64_t ofi_memory_remote(const struct ofi_driver *ofi, const struct ofi_memory *memory,
                           const uint8_t *place);
/* Memory of our own, registered; fd < 0: anonymous, else a mapping of that. */
int ofi_region_new(struct ofi_driver *ofi, int fd, uint64_t length_bytes, uint64_t access,
                   struct ofi_region **ret_region);
/* It ends: its key is not known any more. */
void ofi_region_forget(struct ofi_driver *ofi, struct ofi_region *region);
/* Whether a region has this key that somebody was told of. */
bool ofi_region_known(struct ofi_driver *ofi, uint64_t key);
int ofi_region_add(struct driver *driver, const struct driver_memory *memory,
                   struct driver_region **ret_region);
void ofi_region_remove(struct driver *driver, struct driver_region *region);

/* ofi_quarantine.c */
int ofi_quarantine_init(struct ofi_driver *ofi);
/* Before the endpoint is closed, and after it. */
void ofi_quarantine_close(struct ofi_driver *ofi);
void ofi_quarantine_deinit(struct ofi_driver *ofi);
/* Any thread. Nothing is written to this memory any more: what the provider still writes goes into
 * other memory at the same address, until none can come. NULL is fine. */
void ofi_region_quarantine(struct ofi_driver *ofi, struct ofi_region *region);
/* Frees what it can, and asks those whom it waits for: how many it freed. */
int ofi_quarantine_run(struct ofi_driver *ofi);
bool ofi_quarantine_waiting(const struct ofi_driver *ofi);
/* When it is to be run next, if nothing comes before; UINT64_MAX: not then. */
uint64_t ofi_quarantine_due_ns(const struct ofi_driver *ofi);
/* The source leaves the table, and may still write. It takes over the source. */
void ofi_departed_new(struct ofi_driver *ofi, struct ofi_source *source);
/* A connection from this name stands that is younger than what those that were dropped had. */
void ofi_departed_gone(struct ofi_driver *ofi, const struct ofi_address *address);
/* Messages. */
void ofi_revoke(struct ofi_driver *ofi, const struct ofi_message *message);
void ofi_revoked(struct ofi_driver *ofi, const struct ofi_message *message);

/* ofi_request.c */
int ofi_requests_init(struct ofi_driver *ofi, uint32_t segment_bytes);
void ofi_requests_deinit(struct ofi_driver *ofi);
/* A write to this peer, on its list, that reads the put's bytes (NULL: nobody's); with a bounce
 * buffer if asked. NULL: none is free. */
struct ofi_request *ofi_write_take(struct ofi_driver *ofi, struct ofi_peer *peer,
                                   struct ofi_put *put, bool staged);
void ofi_write_give(struct ofi_driver *ofi, struct ofi_request *request);
/* Nobody waits for it any more; the provider still has it. */
void ofi_write_orphan(struct ofi_request *request);
struct ofi_request *ofi_send_take(struct ofi_driver *ofi, struct ofi_name *to);
void ofi_send_give(struct ofi_driver *ofi, struct ofi_request *request);
int ofi_recv_post(struct ofi_driver *ofi, struct ofi_request *request);
bool ofi_request_known(const struct ofi_driver *ofi, const void *context);

/* ofi_kick.c */
/* What the provider has said to something that was to go there: -EAGAIN, or anything else. */
void ofi_name_note(const struct ofi_driver *ofi, struct ofi_name *name, int r);

/* ofi_peer.c */
int ofi_name_take(struct ofi_driver *ofi, const struct ofi_address *address,
                  struct ofi_name **ret_name);
void ofi_name_hold(struct ofi_driver *ofi, struct ofi_name *name);
void ofi_name_give(struct ofi_driver *ofi, struct ofi_name *name);
int ofi_address_check(const void *data, size_t bytes, struct ofi_address *ret_address);
static inline bool ofi_same(const struct ofi_secret *a, const struct ofi_secret *b)
{
    /* Takes as long whatever differs. */
    return ((a->word[0] ^ b->word[0]) | (a->word[1] ^ b->word[1])) == 0;
}
int ofi_peer_connect(struct driver *driver, const void *address, size_t address_bytes,
                     struct driver_peer **ret_peer);
void ofi_peer_disconnect(struct driver *driver, struct driver_peer *peer);
void ofi_peer_fail(struct driver *driver, struct driver_peer *peer, int error);
int ofi_peer_flush(struct driver *driver, struct driver_peer *peer, struct driver_op *op);
void ofi_peer_activate(struct ofi_driver *ofi, struct ofi_peer *peer);
void ofi_peer_deactivate(struct ofi_peer *peer);
/* Marks it; its puts are completed by the next progress(). */
void ofi_peer_mark_failed(struct ofi_driver *ofi, struct ofi_peer *peer, int error);
/* Completes everything of a peer that is down, and tells the owner. */
void ofi_peer_complete_failed(struct ofi_driver *ofi, struct ofi_peer *peer);

/* ofi_link.c: the sender's side of links */
/* Sends what its state calls for: HELLO, SYNC; gives up what says nothing for too long. */
void ofi_link_tend(struct ofi_driver *ofi, struct ofi_peer *peer, uint64_t now_ns);
/* What is on its way may be lost. */
void ofi_link_broken(struct ofi_driver *ofi, struct ofi_peer *peer);
void ofi_link_welcome(struct ofi_driver *ofi, const struct ofi_message *message);
void ofi_link_synced(struct ofi_driver *ofi, const struct ofi_message *message);
void ofi_link_credit(struct ofi_driver *ofi, uint64_t data);
void ofi_link_close(struct ofi_driver *ofi, struct ofi_peer *peer);
/* -EAGAIN: the provider does not take it; -ENOBUFS: too many are on their way. */
int ofi_message_send(struct ofi_driver *ofi, struct ofi_name *to,
                     const struct ofi_message *message);

/* ofi_source.c: the receiver's side */
void ofi_source_hello(struct ofi_driver *ofi, const struct ofi_message *message);
void ofi_source_bye(struct ofi_driver *ofi, const struct ofi_message *message);
void ofi_source_sync(struct ofi_driver *ofi, const struct ofi_message *message);
/* Works on what has come: how many units. */
int ofi_source_unit(struct ofi_driver *ofi, uint64_t data);
/* Credits and WELCOMEs that are owed and due; idle: also those that were asked for. How many. */
int ofi_sources_settle(struct ofi_driver *ofi, bool idle);
/* Whether some of them are to be tried again soon. */
bool ofi_sources_hurry(const struct ofi_driver *ofi);
/* Drops those of an instance (NULL: all, and the endpoint has been closed). */
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
int ofi_put_post(struct driver *driver, struct driver_put *put, struct driver_op *op);
/* The provider no longer has one of the writes that read the put's source. */
static inline void ofi_put_unread(struct ofi_put *put)
{
    put->outstanding--;
    put->base.pending--;
    window_put_check(&put->base);
}
/* Posts what it can of the peer's puts, at most budget writes: how many. Sets peer->blocked. */
int ofi_peer_pump(struct ofi_driver *ofi, struct ofi_peer *peer, unsigned budget);
/* Those that go to where this key leads, at this instance, post nothing more. */
void ofi_puts_revoke(struct ofi_driver *ofi, const struct ofi_secret *cookie, uint64_t key);

/* ofi_write.c */
/* One unit of a put: 0, -EAGAIN (peer->blocked says why), or another error: the peer cannot be
 * reached. */
int ofi_write_next(struct ofi_driver *ofi, struct ofi_put *put);
/* A unit that does nothing but ask for the count: the same. */
int ofi_write_ask(struct ofi_driver *ofi, struct ofi_peer *peer);
/* The unit link.again once more: the same. */
int ofi_write_again(struct ofi_driver *ofi, struct ofi_peer *peer);
/* Bytes and completion data, copied. */
int ofi_write_small(struct ofi_driver *ofi, struct ofi_name *to, uint64_t address, uint64_t key,
                    const void *bytes, size_t count, uint64_t data);
/* Something that changes nothing: 0, or -EAGAIN when the connection does not stand. */
int ofi_write_probe(struct ofi_driver *ofi, struct ofi_name *name,
                    const struct ofi_address *address);

/* ofi_progress.c */
int ofi_progress(struct driver *driver, unsigned budget);
int ofi_event_fd(struct driver *driver);
int ofi_arm(struct driver *driver);
