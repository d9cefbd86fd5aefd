#include <inttypes.h>

#include "tools/tca-bench/bench.h"

static const char *layout_name(const struct row *row)
{
    return row->variant.strided ? "block-stride" : "contiguous";
}

void report_header(FILE *out)
{
    fprintf(out, "%-10s %-10s %-7s %-12s %9s %12s %12s %9s %9s\n", "bench", "rail", "seat",
            "layout", "bytes", "median us", "p99 us", "Gbit/s", "line ns");
}

void report_row(FILE *out, const struct row *row)
{
    char gbps[24] = "-";

    if (row->gbps > 0)
        snprintf(gbps, sizeof(gbps), "%.2f", row->gbps);
    fprintf(out, "%-10s %-10s %-7s %-12s %9" PRIu64 " %12.3f %12.3f %9s %9.1f", row->bench,
            variant_rail(&row->variant), tca_seat_name(row->variant.seat), layout_name(row),
            row->bytes, row->median_ns / 1e3, row->p99_ns / 1e3, gbps, row->line_ns);
    if (row->transfer_ns > 0)
        fprintf(out, "  %.0f %% hidden%s: transfer %.1f us, computing %.1f us", row->hidden * 100,
                row->hidden < 0 ? " (they slow each other down)" : "", row->transfer_ns / 1e3,
                row->compute_ns / 1e3);
    if (row->alone_ns > 0)
        fprintf(out, " of 8 bytes; alone %.3f us; long put %.0f us", row->alone_ns / 1e3,
                row->long_ns / 1e3);
    if (row->wire_ns > 0)
        fprintf(out, "  client %.2f, ring %.2f, engine %.2f, wire and engine %.2f, client %.2f us",
                row->start_ns / 1e3, row->ring_ns / 1e3, row->engine_ns / 1e3, row->wire_ns / 1e3,
                row->deliver_ns / 1e3);
    fputc('\n', out);
    fflush(out);
}

void report_json(FILE *out, const struct row *row)
{
    fprintf(out,
            "{\"bench\":\"%s\",\"rail\":\"%s\",\"seat\":\"%s\",\"layout\":\"%s\",\"bytes\":%" PRIu64
            ",\"median_ns\":%.3f,\"p99_ns\":%.3f,\"gbps\":%.4f,\"samples\":%" PRIu64
            ",\"line_ns\":%.1f",
            row->bench, variant_rail(&row->variant), tca_seat_name(row->variant.seat),
            layout_name(row), row->bytes, row->median_ns, row->p99_ns, row->gbps, row->samples,
            row->line_ns);
    if (row->transfer_ns > 0)
        fprintf(out, ",\"transfer_ns\":%.0f,\"compute_ns\":%.0f,\"hidden\":%.4f", row->transfer_ns,
                row->compute_ns, row->hidden);
    if (row->alone_ns > 0)
        fprintf(out, ",\"alone_ns\":%.0f,\"long_ns\":%.0f", row->alone_ns, row->long_ns);
    if (row->wire_ns > 0)
        fprintf(out,
                ",\"client_ns\":%.0f,\"ring_ns\":%.0f,\"engine_ns\":%.0f,\"wire_engine_ns\":%.0f,"
                "\"deliver_ns\":%.0f",
                row->start_ns, row->ring_ns, row->engine_ns, row->wire_ns, row->deliver_ns);
    fputs("}\n", out);
    fflush(out);
}
