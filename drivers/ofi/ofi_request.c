/* Requests to the provider, and their buffers. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "drivers/ofi/ofi.h"

static void *map(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static size_t staging_bytes(uint32_t segment_bytes)
{
    return ((size_t)segment_bytes + sizeof(struct ofi_segment) + 63) & ~(size_t)63;
}

static int map_registered(struct ofi_driver *ofi, size_t bytes, uint64_t access,
                          struct ofi_memory *ret_memory)
{
    void *base = map(bytes);
    if (!base)
        return -ENOMEM;
    int r = ofi_memory_register(ofi, base, bytes, access, ret_memory);
    if (r < 0)
        munmap(base, bytes);
    return r;
}

static void unmap_registered(struct ofi_memory *memory)
{
    void *base = memory->base;
    size_t bytes = memory->length_bytes;
    ofi_memory_close(memory);
    if (base)
        munmap(base, bytes);
}

int ofi_requests_init(struct ofi_driver *ofi, uint32_t segment_bytes)
{
    struct ofi_requests *requests = &ofi->requests;
    const size_t step = staging_bytes(segment_bytes);
    requests->segment_bytes = segment_bytes;
    requests->count = OFI_WRITES_MAX + OFI_SENDS_MAX + OFI_RECVS;
    requests->all = calloc(requests->count, sizeof(requests->all[0]));
    if (!requests->all)
        return -ENOMEM;
    int r = map_registered(ofi, step * OFI_STAGINGS, FI_WRITE, &requests->staging_memory);
    if (r == 0)
        r = map_registered(ofi, sizeof(struct ofi_message) * (OFI_SENDS_MAX + OFI_RECVS),
                           FI_SEND | FI_RECV, &requests->message_memory);
    if (r < 0)
        return r;

    for (unsigned i = 0; i < OFI_STAGINGS; i++)
        requests->staging[requests->staging_count++] = requests->staging_memory.base + i * step;
    struct ofi_request *request = requests->all;
    for (unsigned i = 0; i < OFI_WRITES_MAX; i++, request++) {
        request->kind = OFI_REQUEST_WRITE;
        request->next = requests->writes;
        requests->writes = request;
    }
    for (unsigned i = 0; i < OFI_SENDS_MAX + OFI_RECVS && r == 0; i++, request++) {
        request->kind = i < OFI_SENDS_MAX ? OFI_REQUEST_SEND : OFI_REQUEST_RECV;
        request->buffer = requests->message_memory.base + i * sizeof(struct ofi_message);
        if (request->kind == OFI_REQUEST_SEND)
            ofi_send_give(ofi, request);
        else
            r = ofi_recv_post(ofi, request);
    }
    return r;
}

void ofi_requests_deinit(struct ofi_driver *ofi)
{
    unmap_registered(&ofi->requests.staging_memory);
    unmap_registered(&ofi->requests.message_memory);
    free(ofi->requests.all);
}

struct ofi_request *ofi_write_take(struct ofi_driver *ofi, struct ofi_peer *peer,
                                   struct ofi_put *put, bool staged)
{
    struct ofi_requests *requests = &ofi->requests;
    struct ofi_request *request = requests->writes;
    if (!request || (staged && requests->staging_count == 0))
        return NULL;
    requests->writes = request->next;
    request->staged = staged;
    request->buffer = staged ? requests->staging[--requests->staging_count] : NULL;
    request->put = put;
    request->peer = peer;
    request->next = &peer->requests;
    request->previous = peer->requests.previous;
    request->previous->next = request;
    peer->requests.previous = request;
    return request;
}

void ofi_write_orphan(struct ofi_request *request)
{
    request->previous->next = request->next;
    request->next->previous = request->previous;
    request->peer = NULL;
    request->put = NULL;
}

void ofi_write_give(struct ofi_driver *ofi, struct ofi_request *request)
{
    struct ofi_requests *requests = &ofi->requests;
    if (request->peer)
        ofi_write_orphan(request);
    if (request->staged)
        requests->staging[requests->staging_count++] = request->buffer;
    request->buffer = NULL;
    request->staged = request->busy = false;
    request->next = requests->writes;
    requests->writes = request;
}

struct ofi_request *ofi_send_take(struct ofi_driver *ofi, struct ofi_name *to)
{
    struct ofi_request *request = ofi->requests.sends;
    if (!request || to->sends >= OFI_SENDS_PER_NAME)
        return NULL;
    ofi->requests.sends = request->next;
    request->name = to;
    to->sends++;
    ofi_name_hold(ofi, to);
    return request;
}

void ofi_send_give(struct ofi_driver *ofi, struct ofi_request *request)
{
    if (request->name) {
        request->name->sends--;
        ofi_name_give(ofi, request->name);
    }
    request->name = NULL;
    request->next = ofi->requests.sends;
    ofi->requests.sends = request;
}

int ofi_recv_post(struct ofi_driver *ofi, struct ofi_request *request)
{
    return (int)fi_recv(ofi->endpoint, request->buffer, sizeof(struct ofi_message),
                        fi_mr_desc(ofi->requests.message_memory.mr), FI_ADDR_UNSPEC, request);
}

bool ofi_request_known(const struct ofi_driver *ofi, const void *context)
{
    const struct ofi_requests *requests = &ofi->requests;
    uintptr_t offset = (uintptr_t)context - (uintptr_t)requests->all;
    return context && (uintptr_t)context >= (uintptr_t)requests->all &&
           offset < requests->count * sizeof(requests->all[0]) &&
           offset % sizeof(requests->all[0]) == 0;
}
