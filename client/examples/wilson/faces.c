#include "faces.h"

enum { PACKED = DIMENSIONS - 1 }; /* across the last dimension, sites are scattered */

/* The face of the sites whose coordinate d is 0 or the last one, in the array of one parity. */
static struct tca_qmp_buffer face_of(const struct lattice *lattice, struct spinor *field,
                                     uint32_t d, int last)
{
    uint64_t inner = 1, outer = 1;

    for (uint32_t e = 0; e < DIMENSIONS; e++)
        *(e < d ? &outer : &inner) *= e == d ? 1 : lattice->extent[e];
    return (struct tca_qmp_buffer){
        .address = field + (last ? lattice->extent[d] - 1 : 0) * inner / 2,
        .block_bytes = inner / 2 * sizeof(*field),
        .blocks = outer,
        .stride_bytes = (int64_t)(lattice->extent[d] * inner / 2 * sizeof(*field)),
    };
}

/* The face that is sent in a direction, and the ghost that is received from there. */
static int declare(struct faces *faces, struct tca_qmp *qmp, const struct lattice *lattice,
                   struct spinor *field, uint32_t parity, uint32_t hop)
{
    struct tca_msg_request **requests = &faces->requests[parity][2 * (size_t)hop];
    uint32_t d = hop / 2;
    int direction = hop % 2 ? -1 : 1;
    struct tca_qmp_buffer ghost = {.address = faces->ghosts[hop],
                                   .block_bytes = lattice_face(lattice, d) * sizeof(*field),
                                   .blocks = 1};
    struct tca_qmp_buffer face = ghost;

    face.address = faces->packed[hop];
    if (d != PACKED)
        face = face_of(lattice, field, d, direction > 0);
    int r = tca_qmp_recv_relative(qmp, &ghost, d, direction, &requests[0]);
    return r < 0 ? r : tca_qmp_send_relative(qmp, &face, d, direction, &requests[1]);
}

int faces_init(struct faces *faces, struct tca_qmp *qmp, struct tca *session,
               const struct lattice *lattice, struct spinor *const *fields)
{
    int r = 0;

    *faces = (struct faces){.session = session, .fields = {fields[0], fields[1]}};
    for (uint32_t hop = 0; r >= 0 && hop < HOPS; hop++) {
        uint64_t bytes = lattice_face(lattice, hop / 2) * sizeof(struct spinor);
        if (!lattice->split[hop / 2])
            continue;
        r = tca_alloc(session, bytes, (void **)&faces->ghosts[hop]);
        if (r >= 0 && hop / 2 == PACKED)
            r = tca_alloc(session, bytes, (void **)&faces->packed[hop]);
        for (uint32_t parity = 0; r >= 0 && parity < 2; parity++)
            r = declare(faces, qmp, lattice, fields[parity], parity, hop);
    }
    return r;
}

void faces_deinit(struct faces *faces)
{
    for (uint32_t i = 0; i < 2 * HOPS; i++) {
        tca_msg_release(faces->requests[0][i]);
        tca_msg_release(faces->requests[1][i]);
    }
    for (uint32_t hop = 0; hop < HOPS; hop++) {
        tca_free(faces->session, faces->ghosts[hop]);
        tca_free(faces->session, faces->packed[hop]);
    }
}

static void pack(const struct faces *faces, const struct lattice *lattice, uint32_t parity)
{
    const uint32_t *extent = lattice->extent;
    uint32_t count = 0;

    for (uint32_t t = 0; t < extent[0]; t++)
        for (uint32_t z = 0; z < extent[1]; z++)
            for (uint32_t y = 0; y < extent[2]; y++) {
                /* Of these rows, every other one begins with a site of this parity, and the rest
                 * end with one. */
                bool last = (t + z + y + parity) % 2;
                uint32_t row[DIMENSIONS] = {t, z, y, last ? extent[PACKED] - 1 : 0};
                uint32_t hop = 2 * PACKED + !last;
                faces->packed[hop][count++ / 2] =
                    faces->fields[parity][lattice_index(lattice, row)];
            }
}

int faces_start(struct faces *faces, const struct lattice *lattice, uint32_t parity)
{
    int r = 0;

    if (lattice->split[PACKED])
        pack(faces, lattice, parity);
    for (uint32_t i = 0; r >= 0 && i < 2 * HOPS; i++)
        if (faces->requests[parity][i])
            r = tca_msg_start(faces->requests[parity][i]);
    return r;
}

int faces_wait(struct faces *faces, uint32_t parity)
{
    return tca_msg_wait_all(faces->requests[parity], 2 * HOPS, TCA_FOREVER);
}
