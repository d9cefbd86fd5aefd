/*
 * The board model with a hostile driver and hostile neighbours: they store anything anywhere at any
 * time: registers, descriptors, lines of BAR 2, packets and the words of the rings. The board must
 * access only mapped host memory, keep its state consistent, and complete every round.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/fuzz_board.h"
#include "tools/tca-board/board.h"

enum { GUARD = 0x5a, GUARD_BYTES = 4096, ROUNDS = 3 };

static struct board board;
static struct peach2_registers bar0;
static struct peach2_window bar2;
static uint8_t *host; /* a guard, what is mapped, a guard */
static int host_fd;

static void open_once(void)
{
    if (host)
        return;
    const size_t bytes = BOARD_HOST_BYTES + 2 * GUARD_BYTES;
    host_fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    FUZZ_REQUIRE(host_fd >= 0 && ftruncate(host_fd, (off_t)bytes) == 0);
    FUZZ_REQUIRE(fcntl(host_fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    host = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, host_fd, 0);
    FUZZ_REQUIRE(host != MAP_FAILED);
    board.interrupt_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

/* As port_up() does. */
static void plug(unsigned index)
{
    struct port *port = &board.ports[index];
    if (port->up)
        return;
    port->memory = mmap(NULL, sizeof(*port->memory), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    FUZZ_REQUIRE(port->memory != MAP_FAILED);
    port->out = &port->memory->rings[0];
    port->in = &port->memory->rings[1];
    port->out_tail = port->out_head = port->in_head = 0;
    port->claimed = port->sent = port->taken = false;
    port->scratch_version = 0;
    port->up = true;
}

static void begin(void)
{
    const int interrupt_fd = board.interrupt_fd;
    memset(&bar0, 0, sizeof(bar0));
    memset(&bar2, 0, sizeof(bar2));
    memset(host, GUARD, BOARD_HOST_BYTES + 2 * GUARD_BYTES);
    memset(&board, 0, offsetof(struct board, acks)); /* those are many, and none count at first */
    board.node = BOARD_NODE;
    board.bar0 = &bar0;
    board.bar2 = &bar2;
    board.interrupt_fd = interrupt_fd;
    board.boot = 1;
    board.ack_first = board.ack_count = board.turn = 0;
    for (unsigned i = 0; i < PEACH2_PORTS; i++)
        board.ports[i].fd = board.ports[i].bell_fd = -1;
    for (unsigned i = PEACH2_E; i < PEACH2_PORTS; i++)
        plug(i);
    FUZZ_REQUIRE(iommu_map(&board.iommu, BOARD_HOST_BUS, BOARD_HOST_BYTES, host_fd, GUARD_BYTES) ==
                 0);
}

static void end(void)
{
    for (unsigned i = PEACH2_E; i < PEACH2_PORTS; i++)
        port_down(&board, i);
    for (unsigned i = 0; i < PEACH2_NODES; i++)
        free(board.replays[i].packets);
    iommu_clear(&board.iommu);
}

static void check(void)
{
    uint32_t replayed = 0;
    for (unsigned i = 0; i < PEACH2_NODES; i++) {
        FUZZ_REQUIRE(board.replays[i].count <= board.replays[i].capacity);
        replayed += board.replays[i].count;
    }
    FUZZ_REQUIRE(replayed == board.replay_count);
    FUZZ_REQUIRE(board.ack_count <= BOARD_ACKS && board.ack_first < BOARD_ACKS);
    for (unsigned i = PEACH2_E; i < PEACH2_PORTS; i++)
        FUZZ_REQUIRE(board.ports[i].out_tail - board.ports[i].out_head <= LINK_SLOTS);
    for (unsigned i = 0; i < PEACH2_CHANNELS; i++) {
        const struct channel *channel = &board.channels[i];
        FUZZ_REQUIRE(channel->begun - channel->done <= PEACH2_COMMANDS);
        FUZZ_REQUIRE(!channel->loaded || channel->moved_bytes <= channel->descriptor.length);
    }
}

static void check_guards(void)
{
    for (size_t i = 0; i < GUARD_BYTES; i++)
        FUZZ_REQUIRE(host[i] == GUARD && host[GUARD_BYTES + BOARD_HOST_BYTES + i] == GUARD);
}

static void store(uint8_t *to, size_t size, uint32_t offset, const uint8_t *data, size_t bytes)
{
    size_t at = offset % size;
    memcpy(to + at, data, bytes < size - at ? bytes : size - at);
}

static void obey(const struct board_record *record, const uint8_t *data)
{
    uint32_t offset = record->offset_low | (uint32_t)record->offset_high << 16;
    unsigned place = record->place % BOARD_PLACES;
    unsigned port = PEACH2_E + (place < PULL ? place - IN_CABLE : offset % 3);
    if (place == IN_BAR0)
        store((uint8_t *)&bar0, sizeof(bar0), offset, data, record->bytes);
    else if (place == IN_BAR2)
        store((uint8_t *)&bar2, sizeof(bar2), offset, data, record->bytes);
    else if (place == IN_HOST)
        store(host + GUARD_BYTES, BOARD_HOST_BYTES, offset, data, record->bytes);
    else if (place == PULL)
        port_down(&board, port);
    else if (place == PLUG)
        plug(port);
    else if (board.ports[port].memory)
        store((uint8_t *)board.ports[port].memory, sizeof(struct link_memory), offset, data,
              record->bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct board_record record;
    open_once();
    begin();
    while (bytes >= sizeof(record)) {
        memcpy(&record, data, sizeof(record));
        data += sizeof(record);
        bytes -= sizeof(record);
        record.bytes = bytes < record.bytes ? (uint8_t)bytes : record.bytes;
        obey(&record, data);
        data += record.bytes;
        bytes -= record.bytes;
        for (unsigned i = 0; i < ROUNDS; i++)
            board_round(&board);
        check();
    }
    check_guards();
    board_show(&board);
    end();
    return 0;
}
