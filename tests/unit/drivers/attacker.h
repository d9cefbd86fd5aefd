/* An attacker that speaks the protocol of the ofi driver to an instance, the victim, which the test
 * opens. */
#pragma once

#include <criterion/criterion.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/ofi/ofi.h"
#include "tests/unit/drivers/kit.h"

enum { BUFFER = 1 << 20 };

struct attacker {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *endpoint;
    struct fid_mr *mr;
    uint8_t *buffer; /* the first half: to send; the end: a received message */
    fi_addr_t victim;
    struct ofi_address address; /* of the victim */
    struct ofi_address own;
    unsigned received;
    unsigned sent;
    unsigned posted;
};

static struct side victim;
static struct attacker attacker;

static inline struct ofi_message *inbox(void)
{
    return (struct ofi_message *)(attacker.buffer + BUFFER - sizeof(struct ofi_message));
}

static inline void attacker_open(void)
{
    struct fi_info *hints = fi_allocinfo();
    struct fi_cq_attr queue = {.format = FI_CQ_FORMAT_DATA};
    struct fi_av_attr addresses = {.type = FI_AV_TABLE};
    hints->caps = FI_MSG | FI_RMA;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED;
    hints->fabric_attr->prov_name =
        strdup(((struct ofi_driver *)victim.driver)->info->fabric_attr->prov_name);
    cr_assert(fi_getinfo(FI_VERSION(1, 15), "127.0.0.1", NULL, FI_SOURCE, hints, &attacker.info) ==
              0);
    fi_freeinfo(hints);
    cr_assert(fi_fabric(attacker.info->fabric_attr, &attacker.fabric, NULL) == 0);
    cr_assert(fi_domain(attacker.fabric, attacker.info, &attacker.domain, NULL) == 0);
    cr_assert(fi_av_open(attacker.domain, &addresses, &attacker.av, NULL) == 0);
    cr_assert(fi_cq_open(attacker.domain, &queue, &attacker.cq, NULL) == 0);
    cr_assert(fi_endpoint(attacker.domain, attacker.info, &attacker.endpoint, NULL) == 0);
    cr_assert(fi_ep_bind(attacker.endpoint, &attacker.av->fid, 0) == 0);
    cr_assert(fi_ep_bind(attacker.endpoint, &attacker.cq->fid, FI_TRANSMIT | FI_RECV) == 0);
    cr_assert(fi_enable(attacker.endpoint) == 0);
    attacker.buffer = calloc(1, BUFFER);
    cr_assert(fi_mr_reg(attacker.domain, attacker.buffer, BUFFER,
                        FI_SEND | FI_RECV | FI_WRITE | FI_REMOTE_WRITE, 0, 1, 0, &attacker.mr,
                        NULL) == 0);

    victim.driver->ops->address(victim.driver, &attacker.address);
    cr_assert(fi_av_insert(attacker.av, attacker.address.name, 1, &attacker.victim, 0, NULL) == 1);
    attacker.own = attacker.address;
    attacker.own.cookie.word[0] ^= 1;
    size_t bytes = sizeof(attacker.own.name);
    cr_assert(fi_getname(&attacker.endpoint->fid, attacker.own.name, &bytes) == 0);
    attacker.own.name_bytes = (uint16_t)bytes;
    attacker.own.sink_address = 0;
    attacker.own.sink_key = fi_mr_key(attacker.mr);
}

static inline void attacker_close(void)
{
    fi_close(&attacker.mr->fid);
    fi_close(&attacker.endpoint->fid);
    fi_close(&attacker.cq->fid);
    fi_close(&attacker.av->fid);
    fi_close(&attacker.domain->fid);
    fi_close(&attacker.fabric->fid);
    fi_freeinfo(attacker.info);
    free(attacker.buffer);
}

static inline void pump(unsigned rounds)
{
    struct fi_cq_data_entry entry;
    for (unsigned i = 0; i < rounds; i++) {
        cr_assert(victim.driver->ops->progress(victim.driver, 16) >= 0, "the driver is broken");
        ssize_t r = fi_cq_read(attacker.cq, &entry, 1);
        if (r == 1 && entry.flags & FI_RECV)
            attacker.received++;
        else if (r == 1 && entry.op_context)
            attacker.sent++;
        if (r == -FI_EAVAIL) {
            struct fi_cq_err_entry error = {0};
            fi_cq_readerr(attacker.cq, &error, 0);
            attacker.sent++;
        }
    }
}

/* Sends the beginning of the buffer. */
static inline void send_message(size_t bytes)
{
    while (fi_send(attacker.endpoint, attacker.buffer, bytes, fi_mr_desc(attacker.mr),
                   attacker.victim, &attacker) != 0)
        pump(1);
    attacker.posted++;
    while (attacker.sent < attacker.posted)
        pump(1);
    pump(20);
}

/* Writes the beginning of the buffer, with completion data. */
static inline void write_data(size_t bytes, uint64_t address, uint64_t key, uint64_t data)
{
    while (fi_writedata(attacker.endpoint, attacker.buffer, bytes, fi_mr_desc(attacker.mr), data,
                        attacker.victim, address, key, &attacker) != 0)
        pump(1);
    attacker.posted++;
    while (attacker.sent < attacker.posted)
        pump(1);
    pump(20);
}

static inline struct ofi_message hello(void)
{
    return (struct ofi_message){
        .magic = OFI_MESSAGE_MAGIC,
        .version = PROTO_VERSION,
        .type = OFI_HELLO,
        .to = attacker.address.cookie,
        .link = 3,
        .link_epoch = 9,
        .from = attacker.own,
    };
}

/* Requests a link as an honest sender does. Returns the WELCOME. */
static inline struct ofi_message get_ring(void)
{
    struct ofi_message message = hello();
    unsigned before = attacker.received;
    cr_assert(fi_recv(attacker.endpoint, inbox(), sizeof(*inbox()), fi_mr_desc(attacker.mr),
                      FI_ADDR_UNSPEC, attacker.buffer) == 0);
    memcpy(attacker.buffer, &message, sizeof(message));
    send_message(sizeof(message));
    while (attacker.received == before)
        pump(1);
    cr_assert(inbox()->type == OFI_WELCOME && inbox()->status == 0);
    return *inbox();
}
