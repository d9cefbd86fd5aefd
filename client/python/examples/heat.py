#!/usr/bin/env python3
"""The heat equation on a plate, cut into rows of blocks: each rank computes one, and exchanges its rim with its neighbours.

    tca-cluster run -n 2 --ppn 2 -- python3 heat.py [ROWS COLUMNS STEPS]
"""

import sys

import numpy as np
import tca


def step(old, new):
    """One step of Jacobi's method; the outermost elements are the halo."""
    new[1:-1, 1:-1] = (old[:-2, 1:-1] + old[2:, 1:-1] + old[1:-1, :-2] + old[1:-1, 2:]) / 4


def main():
    rows, columns, steps = map(int, sys.argv[1:] or (400, 300, 500))
    with tca.open() as session:
        first, last = (rows * rank // session.size for rank in (session.rank, session.rank + 1))
        plate = [session.zeros((last - first + 2, columns + 2)) for _ in range(2)]
        if session.rank == 0:
            for each in plate:
                each[0] = 100.0  # the upper edge is hot
        change, most = session.zeros(1), session.zeros(1)
        # Both plates have their halos exchanged, in turn; each exchange is planned here and started in every step.
        with session.halo(tuple(plate), grid=[session.size, 1]) as halo, session.Allreduce_init(change, most, "max") as largest:
            for i in range(steps):
                halo()
                old, new = plate[halo.buffer - 1], plate[halo.buffer]
                step(old, new)
            change[0] = np.abs(new - old)[1:-1, 1:-1].max(initial=0)
            largest()
        if session.rank == 0:
            print(f"{rows} x {columns}, {steps} steps on {session.size} ranks: changes by at most {most[0]:.6f}; "
                  f"{new[1, columns // 2]:.6f} below the middle of the edge")


main()
