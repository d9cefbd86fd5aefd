#include "report.h"

#include "tca-halo.h"

void report_fill(struct run_report *report)
{
    double halo = 0;
    double all = 0;

    report->seconds = 0;
    for (uint32_t rank = 0; rank < report->ranks; rank++) {
        const struct rank_report *one = &report->each[rank];

        if (one->seconds > report->seconds)
            report->seconds = one->seconds;
        all += one->seconds;
        halo += one->halo_seconds;
    }
    report->mflops = 0;
    if (report->seconds > 0)
        report->mflops = grid_flops(report->size) * (double)report->sweeps / report->seconds * 1e-6;
    report->halo_share = all > 0 ? halo / all : 0;
}

static void face_text(FILE *out, uint32_t rank, const struct face_report *face)
{
    fprintf(out, "  %4u %-5s %-12s %4u %4d %-6s %-8s %8llu %8llu %9.1f %9.1f %9.1f\n", rank,
            face->name, tca_halo_kind_name(face->kind), face->peer, face->node,
            tca_rail_name(face->rail), tca_seat_name(face->seat), (unsigned long long)face->bytes,
            (unsigned long long)face->starts, (double)face->median_ns / 1e3,
            (double)face->p99_ns / 1e3, (double)face->wait_median_ns / 1e3);
}

void report_text(FILE *out, const struct run_report *report)
{
    const struct grid_size *size = report->size;

    fprintf(out, "Himeno %s, %d x %d x %d points, split %dx%dx1, %u rank%s, %llu sweeps\n",
            size->name, size->imax, size->jmax, size->kmax, report->parts_i, report->parts_j,
            report->ranks, report->ranks == 1 ? "" : "s", (unsigned long long)report->sweeps);
    fprintf(out, "GOSA   %.9e (%a)\nMFLOPS %.1f (%.3f s)\nhalo   %.1f %% of the time\n",
            (double)report->gosa, (double)report->gosa, report->mflops, report->seconds,
            report->halo_share * 100);
    if (report->ranks == 1)
        return;
    fprintf(out, "  rank face  kind         peer node rail   seat        bytes   starts median us  "
                 "  p99 us   wait us\n");
    for (uint32_t rank = 0; rank < report->ranks; rank++)
        for (uint32_t f = 0; f < report->each[rank].face_count; f++)
            face_text(out, rank, &report->each[rank].faces[f]);
}

static void face_json(FILE *out, uint32_t rank, const struct face_report *face)
{
    fprintf(
        out,
        "{\"rank\":%u,\"face\":\"%s\",\"kind\":\"%s\",\"peer\":%u,\"node\":%d,\"rail\":\"%s\","
        "\"seat\":\"%s\","
        "\"bytes\":%llu,\"starts\":%llu,\"median_ns\":%llu,\"p99_ns\":%llu,\"wait_median_ns\":%llu,"
        "\"wait_p99_ns\":%llu}",
        rank, face->name, tca_halo_kind_name(face->kind), face->peer, face->node,
        tca_rail_name(face->rail), tca_seat_name(face->seat), (unsigned long long)face->bytes,
        (unsigned long long)face->starts, (unsigned long long)face->median_ns,
        (unsigned long long)face->p99_ns, (unsigned long long)face->wait_median_ns,
        (unsigned long long)face->wait_p99_ns);
}

void report_json(FILE *out, const struct run_report *report)
{
    const char *comma = "";

    fprintf(
        out,
        "{\"size\":\"%s\",\"split\":\"%dx%dx1\",\"ranks\":%u,\"iterations\":%llu,\"gosa\":\"%.9e\","
        "\"gosa_hex\":\"%a\",\"mflops\":%.3f,\"seconds\":%.6f,\"halo_share\":%.4f,\"faces\":[",
        report->size->name, report->parts_i, report->parts_j, report->ranks,
        (unsigned long long)report->sweeps, (double)report->gosa, (double)report->gosa,
        report->mflops, report->seconds, report->halo_share);
    for (uint32_t rank = 0; rank < report->ranks; rank++)
        for (uint32_t f = 0; f < report->each[rank].face_count; f++) {
            fputs(comma, out);
            comma = ",";
            face_json(out, rank, &report->each[rank].faces[f]);
        }
    fputs("]}\n", out);
}
