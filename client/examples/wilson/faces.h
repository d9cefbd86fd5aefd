/* The messages of a block: its faces go to the neighbours, whose faces are its ghosts. */
#pragma once

#include <tca-qmp.h>

#include "lattice.h"

struct faces {
    struct tca *session;
    struct tca_msg_request *requests[2][2 * HOPS]; /* by parity; NULL where nothing is split */
    struct spinor *packed[HOPS];                   /* faces that are not blocks with a stride */
    struct spinor *ghosts[HOPS];
    const struct spinor *fields[2];
};

/* fields: by parity, from tca_alloc(). 0 or a negative errno, then faces_deinit() is needed,
 * too. */
int faces_init(struct faces *faces, struct tca_qmp *qmp, struct tca *session,
               const struct lattice *lattice, struct spinor *const *fields);
void faces_deinit(struct faces *faces);

/* Exchange the faces of a parity; its field must not be written in between. */
int faces_start(struct faces *faces, const struct lattice *lattice, uint32_t parity);
int faces_wait(struct faces *faces, uint32_t parity);
