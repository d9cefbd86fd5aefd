/* Queries about the faces of an exchange. */
#include <errno.h>

#include "client/core/error.h"
#include "client/halo/halo.h"

uint32_t tca_halo_faces(const struct tca_halo *halo)
{
    return halo->face_count;
}

static int check_face(const struct tca_halo *halo, uint32_t face)
{
    if (face >= halo->face_count)
        return error_set(-EINVAL, "face %u: the halo exchange has %u", face, halo->face_count);
    return 0;
}

int tca_halo_face(const struct tca_halo *halo, uint32_t face, struct tca_halo_face *ret_face)
{
    int r = check_face(halo, face);

    if (r < 0)
        return r;
    *ret_face = halo->faces[face];
    return 0;
}

const char *tca_halo_kind_name(enum tca_halo_kind kind)
{
    switch (kind) {
    case TCA_HALO_BLOCK:
        return "block";
    case TCA_HALO_BLOCK_STRIDE:
        return "block-stride";
    case TCA_HALO_STRIDE:
        return "stride";
    }
    return "?";
}

int tca_halo_receipt(const struct tca_halo *halo, uint32_t face, struct tca_receipt *ret_receipt)
{
    int r = check_face(halo, face);

    if (r < 0)
        return r;
    if (halo->neighbour_of[face] == HALO_QUIET) {
        *ret_receipt = (struct tca_receipt){.rail = TCA_RAIL_ANY};
        return 0;
    }
    return tca_plan_receipt(halo->neighbours[halo->neighbour_of[face]].plans[halo->running],
                            ret_receipt);
}
