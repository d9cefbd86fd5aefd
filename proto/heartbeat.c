#include "proto/heartbeat.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "proto/limits.h"
#include "proto/siphash.h"

struct datagram { /* all little-endian */
    uint32_t magic;
    uint32_t version;
    uint32_t from, to;
    uint64_t sequence;
    uint64_t signature[2];
};
static_assert(sizeof(struct datagram) == HEARTBEAT_BYTES, "a heartbeat is 40 bytes");

static void signature_of(const struct datagram *datagram, const uint64_t key[2],
                         uint64_t ret_signature[2])
{
    siphash_128(key, datagram, offsetof(struct datagram, signature), ret_signature);
    ret_signature[0] = htole64(ret_signature[0]);
    ret_signature[1] = htole64(ret_signature[1]);
}

void heartbeat_sign(const struct heartbeat *heartbeat, const uint64_t key[2],
                    uint8_t ret_bytes[static HEARTBEAT_BYTES])
{
    struct datagram datagram = {.magic = htole32(HEARTBEAT_MAGIC),
                                .version = htole32(PROTO_VERSION),
                                .from = htole32(heartbeat->from),
                                .to = htole32(heartbeat->to),
                                .sequence = htole64(heartbeat->sequence)};
    signature_of(&datagram, key, datagram.signature);
    memcpy(ret_bytes, &datagram, sizeof(datagram));
}

int heartbeat_parse(const void *bytes, size_t count, struct heartbeat *ret_heartbeat)
{
    struct datagram datagram;
    if (count != sizeof(datagram))
        return -EPROTO;
    memcpy(&datagram, bytes, sizeof(datagram));
    if (le32toh(datagram.magic) != HEARTBEAT_MAGIC || le32toh(datagram.version) != PROTO_VERSION)
        return -EPROTO;
    *ret_heartbeat = (struct heartbeat){le32toh(datagram.from), le32toh(datagram.to),
                                        le64toh(datagram.sequence)};
    return 0;
}

bool heartbeat_is_signed(const uint8_t bytes[static HEARTBEAT_BYTES], const uint64_t key[2])
{
    struct datagram datagram;
    uint64_t signature[2];
    memcpy(&datagram, bytes, sizeof(datagram));
    signature_of(&datagram, key, signature);
    /* Constant time: both halves are compared whatever the first yields. */
    return ((signature[0] ^ datagram.signature[0]) | (signature[1] ^ datagram.signature[1])) == 0;
}
