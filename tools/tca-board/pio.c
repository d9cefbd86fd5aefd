/* BAR 2: sends lines of the window as packets, one for each run of stored bytes. */

#include "tools/tca-board/board.h"

/* The first run of set bits at or after `from`; false: none. */
static bool next_run(uint64_t mask, unsigned from, unsigned *ret_first, unsigned *ret_length)
{
    uint64_t rest = from < 64 ? mask >> from << from : 0;
    if (rest == 0)
        return false;
    unsigned first = (unsigned)__builtin_ctzll(rest);
    uint64_t clear = ~(rest >> first);
    unsigned length = clear == 0 ? 64 : (unsigned)__builtin_ctzll(clear);
    *ret_first = first;
    *ret_length = length < 64 - first ? length : 64 - first;
    return true;
}

/* Sends a line. False: the rest of it must wait. */
static bool send_line(struct board *board, const struct peach2_pio_line *line)
{
    unsigned first, length;
    while (next_run(line->mask, board->pio_done_bytes, &first, &length)) {
        struct packet_header header = {.address = line->address + first,
                                       .length = (uint16_t)length};
        if (!board_emit(board, &header, line->bytes + first))
            return false;
        board->pio_done_bytes = first + length;
    }
    return true;
}

static void check_room(struct board *board, uint32_t tail)
{
    uint32_t left = tail - board->pio_head;
    if (left > PEACH2_PIO_LINES / 2) {
        board->pio_crowded = true;
    } else if (board->pio_crowded) {
        board->pio_crowded = false;
        board_cause(board, PEACH2_CAUSE_SPACE);
    }
}

unsigned pio_run(struct board *board)
{
    unsigned sent = 0;
    /* acquire: pairs with the driver's release; the lines are complete */
    uint32_t tail = atomic_load_explicit(&board->bar2->tail, memory_order_acquire);
    if (tail == board->pio_head)
        return 0;
    if (tail - board->pio_head > PEACH2_PIO_LINES) { /* invalid */
        board->pio_head = tail;
        board_discard(board, PEACH2_CAUSE_MALFORMED);
    }
    check_room(board, tail);
    while (board->pio_head != tail && sent < BOARD_BURST) {
        struct peach2_pio_line line = board->bar2->lines[board->pio_head % PEACH2_PIO_LINES];
        if (line.address % PEACH2_PIO_BYTES != 0)
            board_discard(board, PEACH2_CAUSE_MALFORMED);
        else if (!send_line(board, &line))
            break;
        board->pio_done_bytes = 0;
        board->pio_head++;
        sent++;
    }
    /* release: pairs with the driver's acquire; the lines may be reused */
    atomic_store_explicit(&board->bar2->head, board->pio_head, memory_order_release);
    check_room(board, tail);
    return sent;
}
