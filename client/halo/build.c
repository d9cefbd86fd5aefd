/* From what is known of all ranks to faces, neighbours and plans. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/core/error.h"
#include "client/halo/halo.h"

enum { NAME_BYTES = 64 /* of a plan */ };

struct builder {
    struct tca_halo *halo;
    const struct halo_world *world;
    const struct tca_halo_args *args;
    uint32_t me;
};

/* What array `array` of rank `from` sends to rank `to`, its neighbour in a direction. */
static bool boxes_of(const struct builder *b, uint32_t array, uint32_t from, uint32_t to,
                     const int8_t direction[TCA_HALO_DIMENSIONS], struct halo_box *ret_from,
                     struct halo_box *ret_to)
{
    return halo_boxes(b->halo->grid.dimensions, &halo_part_of(b->world, array, from)->shape,
                      &halo_part_of(b->world, array, to)->shape, direction, ret_from, ret_to);
}

/* ---- faces and neighbours ---- */

static struct tca_halo_face describe(const struct builder *b, const struct halo_link *link)
{
    uint32_t dimensions = b->halo->grid.dimensions;
    struct tca_halo_face face = {.rank = link->rank};
    struct halo_box from, to;
    int8_t back[TCA_HALO_DIMENSIONS];

    memcpy(face.direction, link->direction, sizeof(face.direction));
    for (uint32_t d = 0; d < TCA_HALO_DIMENSIONS; d++)
        back[d] = (int8_t)-link->direction[d];
    for (uint32_t a = 0; a < b->args->array_count; a++) {
        const struct halo_part *part = halo_part_of(b->world, a, b->me);
        if (boxes_of(b, a, b->me, link->rank, link->direction, &from, &to)) {
            if (face.sent_bytes == 0)
                face.kind = halo_box_kind(dimensions, &part->shape, &from);
            face.sent_bytes += halo_box_elements(dimensions, &from) * part->element_bytes;
        }
        if (boxes_of(b, a, link->rank, b->me, back, &from, &to))
            face.received_bytes += halo_box_elements(dimensions, &to) * part->element_bytes;
    }
    return face;
}

static uint32_t find_neighbour(const struct tca_halo *halo, uint32_t rank)
{
    uint32_t i = 0;

    while (i < halo->neighbour_count && halo->neighbours[i].rank != rank)
        i++;
    return i;
}

/* Ranks with which something is exchanged, in either direction: the same at both ends. */
static void find_neighbours(struct tca_halo *halo)
{
    for (uint32_t f = 0; f < halo->face_count; f++) {
        const struct tca_halo_face *face = &halo->faces[f];
        if (face->sent_bytes > 0 || face->received_bytes > 0) {
            uint32_t i = find_neighbour(halo, face->rank);
            halo->neighbours[i].rank = face->rank;
            halo->neighbour_count += i == halo->neighbour_count;
        }
    }
    for (uint32_t f = 0; f < halo->face_count; f++) {
        uint32_t i = find_neighbour(halo, halo->faces[f].rank);
        halo->neighbour_of[f] = i < halo->neighbour_count ? i : HALO_QUIET;
    }
}

static int build_faces(const struct builder *b)
{
    struct tca_halo *halo = b->halo;
    struct halo_link *links = calloc(HALO_LINKS_MAX, sizeof(*links));
    uint32_t count = links ? halo_links(&halo->grid, b->me, links) : 0;

    halo->faces = calloc(count + 1, sizeof(*halo->faces)); /* + 1: not 0 bytes */
    halo->neighbour_of = calloc(count + 1, sizeof(*halo->neighbour_of));
    halo->neighbours = calloc(count + 1, sizeof(*halo->neighbours));
    if (!links || !halo->faces || !halo->neighbour_of || !halo->neighbours) {
        free(links);
        return error_static(-ENOMEM, "out of memory");
    }
    for (uint32_t i = 0; i < count; i++)
        halo->faces[i] = describe(b, &links[i]);
    halo->face_count = count;
    find_neighbours(halo);
    free(links);
    return 0;
}

/* ---- plans ---- */

static int box_layout(const struct builder *b, const struct halo_part *part,
                      const struct halo_box *box, struct tca_layout **ret_layout)
{
    uint64_t full[TCA_HALO_DIMENSIONS];
    struct tca_layout *element;
    int r = tca_layout_contiguous(part->element_bytes, &element);

    if (r < 0)
        return r;
    for (uint32_t d = 0; d < b->args->dimensions; d++)
        full[d] = halo_full(&part->shape, d);
    r = tca_layout_subarray(element, b->args->dimensions, full, box->sizes, box->starts,
                            TCA_ORDER_C, ret_layout);
    tca_layout_free(element);
    return r;
}

static int add_put(const struct builder *b, struct tca_plan *plan, uint32_t array, uint32_t buffer,
                   const struct tca_halo_face *face)
{
    const struct halo_part *mine = halo_part_of(b->world, array, b->me);
    const struct halo_part *theirs = halo_part_of(b->world, array, face->rank);
    struct tca_put put = {
        .source_address = b->args->arrays[array].memory[buffer],
        .target = theirs->handles[buffer],
    };
    struct tca_layout *source = NULL, *target = NULL;
    struct halo_box from, to;

    if (!boxes_of(b, array, b->me, face->rank, face->direction, &from, &to))
        return 0;
    int r = box_layout(b, mine, &from, &source);
    if (r >= 0)
        r = box_layout(b, theirs, &to, &target);
    put.source_layout = source;
    put.target_layout = target;
    if (r >= 0)
        r = tca_plan_put(plan, &put);
    tca_layout_free(source);
    tca_layout_free(target);
    return r;
}

/* With one buffer, each side first notifies the other that its halo is free, and puts after it has
 * been notified. With two, the notification of one exchange means that for the next: the neighbour
 * sends it in a start, before which it has read the halo of the buffer that the next exchange
 * fills. Neighbours that receive no data are notified as well, because this order depends on it. A
 * rank that is its own neighbour reads and writes its halos in order anyway. */
static int add_steps(const struct builder *b, struct tca_plan *plan, uint32_t buffer,
                     uint32_t neighbour)
{
    const struct tca_halo *halo = b->halo;
    uint32_t rank = halo->neighbours[neighbour].rank;
    uint32_t slot = halo_head_of(b->world, rank)->slot;
    int r = 0;

    if (halo->buffers == 1 && rank != b->me) {
        r = tca_plan_notify(plan, rank, slot + 1);
        if (r >= 0)
            r = tca_plan_wait(plan, rank, halo->slot + 1, 1);
    }
    for (uint32_t f = 0; f < halo->face_count; f++)
        for (uint32_t a = 0;
             r >= 0 && halo->neighbour_of[f] == neighbour && a < b->args->array_count; a++)
            r = add_put(b, plan, a, buffer, &halo->faces[f]);
    return r < 0 ? r : tca_plan_notify(plan, rank, slot + buffer);
}

static int build_plan(const struct builder *b, uint32_t buffer, uint32_t neighbour)
{
    struct halo_neighbour *to = &b->halo->neighbours[neighbour];
    struct tca_plan_args args = b->args->plan;
    struct tca_plan **plan = &to->plans[buffer];
    char name[NAME_BYTES];

    snprintf(name, sizeof(name), "%.48s:%u", args.name ? args.name : "halo", to->rank);
    args.name = name;
    if (!args.together)
        args.together = b->halo->slot + buffer; /* nobody else's number */
    int r = tca_plan_new(b->halo->session, &args, plan);

    if (r >= 0)
        r = add_steps(b, *plan, buffer, neighbour);
    if (r >= 0)
        r = tca_plan_commit(*plan, TCA_DEFAULT);
    return r < 0 ? r
                 : session_slot_find(b->halo->session, group_to_session(b->halo->group, to->rank),
                                     b->halo->slot + buffer, &to->data[buffer]);
}

/* Neighbours, those that are sent most first: large puts divide the rails among them, and short
 * ones fill the gaps. */
static void sort_by_bytes(const struct tca_halo *halo, uint32_t ret_order[HALO_NEIGHBOURS_MAX])
{
    uint64_t bytes[HALO_NEIGHBOURS_MAX] = {0};

    for (uint32_t f = 0; f < halo->face_count; f++)
        if (halo->neighbour_of[f] != HALO_QUIET)
            bytes[halo->neighbour_of[f]] += halo->faces[f].sent_bytes;
    for (uint32_t n = 0; n < halo->neighbour_count; n++) {
        uint32_t at = n;
        for (; at > 0 && bytes[ret_order[at - 1]] < bytes[n]; at--)
            ret_order[at] = ret_order[at - 1];
        ret_order[at] = n;
    }
}

static int build_plans(const struct builder *b)
{
    struct tca_halo *halo = b->halo;
    uint32_t order[HALO_NEIGHBOURS_MAX];

    if (halo->neighbour_count > HALO_NEIGHBOURS_MAX)
        return error_set(-EINVAL,
                         "rank %u has %u neighbours: at most %d are possible: exchange in fewer "
                         "diagonal directions",
                         b->me, halo->neighbour_count, HALO_NEIGHBOURS_MAX);
    sort_by_bytes(halo, order);
    for (uint32_t buffer = 0; buffer < halo->buffers; buffer++)
        for (uint32_t n = 0; n < halo->neighbour_count; n++) {
            int r = build_plan(b, buffer, order[n]);
            if (r < 0)
                return r;
        }
    return 0;
}

int halo_build(struct tca_halo *halo, const struct halo_world *world,
               const struct tca_halo_args *args)
{
    const struct builder b = {halo, world, args, world->me};
    int r = build_faces(&b);

    return r < 0 ? r : build_plans(&b);
}
