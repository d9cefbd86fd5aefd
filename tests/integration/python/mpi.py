"""tca.from_mpi(): sessions of mpi4py's communicators, whose ranks are those of the communicator. Prints what is wrong."""

import numpy as np
from mpi4py import MPI

import tca


def ring(session, comm):
    """Each rank puts into its right neighbour's array; MPI brings the same."""
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    mine = session.array([MPI.COMM_WORLD.rank, comm.rank, 0.5])
    theirs = session.zeros(3)
    handles = session.allgather(theirs.handle)
    with session.plan() as plan:
        plan.put(mine, handles[right]).notify(right).commit()
        for _ in range(3):
            plan.start()
            session.wait_notified(left)
            plan.wait()
    expected = np.empty(3)
    comm.Sendrecv(np.array(mine), right, 0, expected, left, 0)
    assert (theirs == expected).all(), (theirs, expected)


world = MPI.COMM_WORLD
halves = world.Split(world.rank % 2, -world.rank)  # in another order than the world's
with tca.from_mpi(world) as everybody, tca.from_mpi(halves, timeout=60) as half:  # two sessions of one process
    assert (everybody.rank, everybody.size) == (world.rank, world.size)
    assert (half.rank, half.size) == (halves.rank, halves.size)
    ring(everybody, world)
    ring(half, halves)
