/* Packets that an unplugged cable returned or whose route has changed, and later ones that must not
 * overtake them. */
#include <stdlib.h>
#include <string.h>

#include "tools/tca-board/board.h"

static bool grow(struct replay *replay)
{
    if (replay->count < replay->capacity)
        return true;
    if (replay->count >= BOARD_REPLAY_MAX)
        return false;
    uint32_t capacity = replay->capacity > 0 ? 2 * replay->capacity : 64;
    struct packet *packets = malloc(capacity * sizeof(packets[0]));
    if (!packets)
        return false;
    for (uint32_t i = 0; i < replay->count; i++)
        packets[i] = replay->packets[(replay->first + i) & (replay->capacity - 1)];
    free(replay->packets);
    *replay = (struct replay){.packets = packets, .count = replay->count, .capacity = capacity};
    return true;
}

bool replay_push(struct board *board, const struct packet_header *header, const uint8_t *payload,
                 bool front)
{
    unsigned node = peach2_node_of(header->address);
    if (node >= PEACH2_NODES || header->length > PEACH2_PAYLOAD_MAX || !grow(&board->replays[node]))
        return false;
    struct replay *replay = &board->replays[node];
    if (front)
        replay->first = (replay->first - 1) & (replay->capacity - 1);
    struct packet *packet =
        &replay->packets[(replay->first + (front ? 0 : replay->count)) & (replay->capacity - 1)];
    packet->header = *header;
    memcpy(packet->payload, payload, header->length);
    replay->count++;
    board->replay_count++;
    return true;
}

static unsigned run_one(struct board *board, struct replay *replay)
{
    unsigned moved = 0;
    while (replay->count > 0 && moved < BOARD_BURST) {
        const struct packet *packet = &replay->packets[replay->first];
        if (!board_send(board, &packet->header, packet->payload, PEACH2_N, true))
            break;
        replay->first = (replay->first + 1) & (replay->capacity - 1);
        replay->count--;
        board->replay_count--;
        moved++;
    }
    return moved;
}

unsigned replay_run(struct board *board)
{
    unsigned moved = 0;
    for (unsigned node = 0; node < PEACH2_NODES && board->replay_count > 0; node++)
        moved += run_one(board, &board->replays[node]);
    return moved;
}
