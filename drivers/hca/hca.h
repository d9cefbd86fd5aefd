/*
 * Internal to the hca driver: puts over libibverbs.
 *
 * An instance has one device and port, one protection domain and one completion queue. A peer is
 * one reliable connection (RC queue pair), used by all sessions. A put takes one of two paths:
 *   WRITE  Source and target are contiguous or have long blocks: RDMA writes from region to region,
 *          a chain with one doorbell, one write for each block of the target, with gather lists for
 *          the blocks of the source. The last write carries the landing's number as immediate data;
 *          if that has too many bits, a message follows.
 *   SEND   Others: messages of packed bytes, which the receiver's progress() copies to the target.
 *          Short puts are copied and complete at once.
 * A queue pair delivers in order and once, so a notification never overtakes data. A put of WRITE
 * completes when the device has reported its last write; a put of SEND when the receiver has
 * counted its last message, because a later WRITE could overtake the copy.
 *
 * Neither queue can overflow: messages are sent only into receive buffers that the receiver has
 * reported as free (window.h, credits.h), and work requests are counted until the device has
 * reported them. Only one of several requests asks the device for a completion.
 *
 * A write with an invalid key would fail the connection, and with it the puts of other users. So
 * the key of a freed region stays valid until each peer has stopped (hca_recall.c).
 *
 * Between daemons, a connection that fails is not repaired: puts in flight complete with -ENETDOWN,
 * and the owner makes a new peer. Between processes, it gets another queue pair (hca_again.c).
 * While a put or flush waits for a count, the driver makes sure that the other end is still there
 * (hca_alive.c). Before a queue pair is destroyed, it is stopped and the completion queue emptied,
 * so that a message that the device has acknowledged is never lost.
 *
 * In a process (drivers/seat.h), a peer is a process of another node, which is not trusted. So each
 * peer has a protection domain of its own, in which memory is registered for it alone: what it
 * reads from here is registered for local access, and what it may write is the part of a region
 * that it has a handle to. The sender asks for address and key of a landing (hca_find.c), because
 * the receiver's daemon, which has numbered the landing, does not know them.
 *
 * Threads: as in driver.h, and one that deregisters recalled memory (recall.h). The lock protects
 * what it and peer_connect() share with the polling thread.
 */
#pragma once

#include "drivers/hca/hca_types.h"

/* hca.c */
extern const struct hca_role hca_daemon;

/* hca_open.c */
/* Of a message: as long as it may be, and as the buffers of so many peers leave room for. */
uint32_t hca_segment_bytes(const struct driver_config *config);
/* An instance for this port, which it takes over. */
int hca_new(const struct hca_role *role, const struct rnic_port *port,
            const struct driver_config *config, const struct driver_events *events,
            struct hca_driver **ret_hca);
int hca_probe(const struct driver_config *config, struct driver_caps *ret_caps);
int hca_open(const struct driver_config *config, const struct driver_events *events,
             struct driver **ret_driver);
void hca_close(struct driver *driver);
int hca_address(struct driver *driver, void *ret_address);
int hca_describe_device(const struct driver *driver, void *ret_device);

/* hca_memory.c */
/* Of this part of the memory. Consumes the part's domain. */
int hca_region_make(struct hca_driver *hca, const struct hca_part *part,
                    const struct driver_memory *memory, struct hca_region **ret_region);
int hca_region_add(struct driver *driver, const struct driver_memory *memory,
                   struct driver_region **ret_region);
void hca_region_remove(struct driver *driver, struct driver_region *region);
int hca_landing_new(struct driver *driver, const struct driver_landing_args *args,
                    struct driver_landing **ret_landing, void *ret_blob, size_t *ret_blob_bytes);
void hca_landing_free(struct driver *driver, struct driver_landing *landing);
uint64_t hca_landing_bytes(const struct driver_landing *landing);
/* Without a number. */
int hca_landing_make(struct hca_driver *hca, const struct driver_landing_args *args,
                     struct hca_landing **ret_landing);
void hca_landing_unmake(struct hca_driver *hca, struct hca_landing *landing);
/* So that peers in this domain can write there, who are told of it. */
int hca_landing_register(struct hca_driver *hca, struct hca_landing *landing,
                         struct hca_domain *domain);

/* hca_part.c: domains, and the registration of a part of the region, or of all of it, for a landing
 * or a put. */
int hca_domain_new(struct hca_driver *hca, struct hca_domain **ret_domain);
/* NULL is a no-op. */
struct hca_domain *hca_domain_take(struct hca_driver *hca, struct hca_domain *domain);
void hca_domain_give(struct hca_driver *hca, struct hca_domain *domain);
int hca_part_take(struct hca_driver *hca, struct hca_region *region, const struct hca_part *wanted,
                  struct hca_region **ret_part);
void hca_part_give(struct hca_driver *hca, struct hca_region *region, struct hca_region *part);
int hca_region_part(struct driver *driver, struct driver_region *region, uint64_t offset,
                    uint64_t bytes);
/* The region is removed. */
void hca_parts_remove(struct hca_driver *hca, struct hca_region *region);

/* hca_recall.c: freeing a region whose key peers may know. */
extern const struct recall_driver hca_recall;
void hca_region_free(struct hca_driver *hca, struct hca_region *region);
/* The peer has counted messages. One that has counted a RECALL has stopped writing there. */
void hca_recall_counted(struct hca_peer *peer);
/* Returns the number of steps. */
int hca_recall_run(struct hca_driver *hca);
/* The peer recalls regions: its message. */
int hca_recalled(struct hca_peer *peer, const struct hca_head *head, void *payload);
bool hca_is_recalled(const struct hca_peer *peer, uint64_t region);

/* hca_alive.c: whether a peer that somebody waits for is still there. */
int hca_alive_init(struct hca_driver *hca);
void hca_alive_deinit(struct hca_driver *hca);
/* Somebody begins to wait. */
void hca_alive_watch(struct hca_driver *hca);
void hca_alive_look(struct hca_driver *hca);

/* hca_again.c: another queue pair for a process's peer */
/* Whether the peer, whose queue pair was destroyed, can get another one. */
bool hca_again_possible(const struct hca_peer *peer);
/* What was put waits for it. */
void hca_again_pause(struct hca_peer *peer);
/* It is to be connected, and the other end has received so many pieces. -EPROTO: it cannot have. */
int hca_again_check(const struct hca_peer *peer, uint64_t counted);
void hca_again_resume(struct hca_peer *peer, uint64_t counted);
/* Sends again what was lost: 0 or -EAGAIN. */
int hca_again_run(struct hca_peer *peer);

/* hca_connect.c */
/* A peer without a queue pair, in the driver's list. Consumes the domain. */
int hca_peer_new(struct hca_driver *hca, struct hca_domain *domain, struct hca_peer **ret_peer);
int hca_peer_offer(struct hca_peer *peer, struct hca_offer *ret_offer);
bool hca_port_is_active(const struct hca_driver *hca);
bool hca_address_is_good(const struct hca_driver *hca, const struct hca_address *address);
/* The other end, whose offer this is, is at this address. -EPROTO. */
int hca_peer_join(struct hca_peer *peer, const struct hca_address *address,
                  const struct hca_offer *offer);
int hca_peer_connect(struct driver *driver, const void *address, size_t address_bytes,
                     struct driver_peer **ret_peer, void *ret_offer, size_t *ret_offer_bytes);
int hca_peer_answer(struct driver *driver, struct driver_peer *peer, const void *offer,
                    size_t offer_bytes);
/* Stops and destroys the queue pair; the completion queue has nothing of it. */
void hca_peer_free(struct hca_peer *peer);
/* The device takes no more packets of the peer, and sends none. */
void hca_peer_stop(struct hca_peer *peer);

/* hca_peer.c */
void hca_peer_disconnect(struct driver *driver, struct driver_peer *peer);
void hca_peer_fail(struct driver *driver, struct driver_peer *peer, int error);
int hca_peer_flush(struct driver *driver, struct driver_peer *peer, struct driver_op *op);
void hca_peer_activate(struct hca_peer *peer);
void hca_peer_deactivate(struct hca_peer *peer);
/* The peer will be lost in the next round, if it is not lost yet. */
void hca_peer_break(struct hca_peer *peer, int error);
/* Completes everything of a stopped peer with the error. */
void hca_peer_lose(struct hca_peer *peer, int error);
/* Whether it has nothing to do until the device reports something. */
bool hca_peer_rests(const struct hca_peer *peer);

/* hca_find.c: landings of processes. */
/* A put was prepared. */
void hca_find_landing(struct hca_put *put);
/* Asks and answers what can be asked and answered now. */
void hca_finds_run(struct hca_peer *peer);
bool hca_finds_rest(const struct hca_peer *peer);
/* Messages: -EPROTO. */
int hca_asked(struct hca_peer *peer, const struct hca_head *head, void *payload);
int hca_found(struct hca_peer *peer, const struct hca_head *head, void *payload);
/* A piece has come for a landing that is gone. */
void hca_tell_gone(struct hca_peer *peer, uint32_t landing, uint32_t generation);

/* hca_put.c */
/* The landing that is put to. -EINVAL, -EMSGSIZE, -ESTALE. */
int hca_blob_read(const struct driver_put_args *args, struct hca_blob *ret_blob);
/* A put that is in none of its peer's lists. */
int hca_put_make(const struct driver_put_args *args, const struct hca_blob *blob,
                 struct hca_put **ret_put, struct driver_put_info *ret_info);
/* Which path its next start takes, from what is known. */
void hca_put_choose(struct hca_put *put);
int hca_put_prepare(struct driver *driver, const struct driver_put_args *args,
                    struct driver_put **ret_put, struct driver_put_info *ret_info);
void hca_put_release(struct driver *driver, struct driver_put *put);
void hca_put_part(struct driver *driver, struct driver_put *put, const struct driver_part *part);
int hca_put_post(struct driver *driver, struct driver_put *put, struct driver_op *op);
int hca_puts_pump(struct hca_peer *peer, unsigned budget);

/* hca_write.c: the next writes of a put; see window_make. */
int hca_write(struct hca_put *put);
/* The target of a put is gone: makes no more pieces, and fails it when the device has read what it
 * has posted. As window_make. */
int hca_write_stop(struct hca_put *put);
/* The next writes of a put that is written again, for this piece. 1: these were the last; 0,
 * -EAGAIN. */
int hca_write_again(struct hca_put *put, const struct hca_piece *piece);

/* hca_send.c */
/* A chain of requests; put: NULL, or waits until the device has reported them. 0, -EAGAIN (no room)
 * or -EIO. */
int hca_send_chain(struct hca_peer *peer, struct ibv_send_wr *requests, unsigned count,
                   struct hca_put *put);
bool hca_send_has_room(const struct hca_peer *peer, unsigned requests);
/* The next piece of the window, to be filled in. NULL: no room, or none may be made now. */
struct hca_piece *hca_next_piece(struct hca_peer *peer);
/* Sends the message of this number again. */
int hca_send_again(struct hca_peer *peer, uint64_t number);
/* Puts a message in the place of a piece, which says nothing. */
void hca_send_instead(struct hca_peer *peer, uint64_t number);
/* The next message of a put; see window_make. */
int hca_send_piece(struct hca_put *put);
/* A message without a landing. put: NULL, or waits until the device has reported it. */
int hca_send_notice(struct hca_peer *peer, enum hca_kind kind, const void *payload, uint32_t bytes,
                    struct hca_put *put);
/* Adds a message to the window: that of the chain that was just sent. flags: of its head. */
void hca_send_count(struct hca_peer *peer, struct hca_piece *piece, unsigned flags);
/* Sends what is owed: a question for the count, a count. */
int hca_send_owed(struct hca_peer *peer);

/* hca_receive.c: -EPROTO: no peer that keeps to the rules sends this. */
int hca_receive(struct hca_peer *peer, const struct ibv_wc *completion);
/* struct hca_role.take */
int hca_take_piece(struct hca_peer *peer, const struct hca_head *head, void *payload);
int hca_take_nothing(struct hca_peer *peer, const struct hca_head *head, void *payload);
int hca_receive_post(struct hca_peer *peer, uint32_t buffer);

/* hca_progress.c */
/* Ends everything that was put to a peer, at once, unless it can get another queue pair. */
void hca_peer_end(struct hca_driver *hca, struct hca_peer *peer);
/* Stops and destroys the queue pair, after all that the device has acknowledged was taken. */
void hca_peer_take_last(struct hca_driver *hca, struct hca_peer *peer);
int hca_progress(struct driver *driver, unsigned budget);
int hca_event_fd(struct driver *driver);
int hca_arm(struct driver *driver);
