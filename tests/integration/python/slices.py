"""Random slices of random arrays, put from every rank to every rank, against numpy: slices.py SEED ROUNDS PLANS."""

import sys

import numpy as np
import tca

TYPES = ("u1", "b1", "i2", "i4", "f4", "f8", "c8", "c16", ">i4", "S3", "M8[s]", [("a", "i4"), ("b", "f8", 2), ("c", "S3")])


def random_array(random, dtype):
    shape = tuple(random.integers(1, (9, 9, 7, 5)[:random.integers(1, 5)]))
    return shape, np.frombuffer(random.bytes(int(np.prod(shape)) * dtype.itemsize), dtype).reshape(shape).copy()


def random_slice(random, length, count):
    """`count` of `length` elements, forward or backward."""
    if count == 0:
        return slice(0, 0)
    step = int(random.integers(1, (length - 1) // (count - 1) + 1)) if count > 1 else int(random.integers(1, 4))
    first = int(random.integers(0, length - (count - 1) * step))
    last = first + (count - 1) * step
    if random.integers(2):
        return slice(last, first - 1 if first else None, -step)
    return slice(first, last + 1, step)


def random_slices(random, source, target):
    """Indices that select equally many elements of two shapes, in as many dimensions; of the longer one, the others are fixed."""
    dimensions = min(len(source), len(target))
    chosen = [sorted(random.permutation(len(shape))[:dimensions]) for shape in (source, target)]
    counts = [int(random.integers(0 if random.integers(20) == 0 else 1, min(source[s], target[t]) + 1)) for s, t in zip(*chosen)]
    return [tuple(random_slice(random, length, counts[places.index(i)]) if i in places else int(random.integers(length))
                  for i, length in enumerate(shape)) for shape, places in zip((source, target), chosen)]


def main():
    seed, rounds, plans = map(int, sys.argv[1:])
    with tca.open() as session:
        for turn in range(rounds):
            random = np.random.default_rng([seed, turn])  # the same at all ranks
            dtype = np.dtype(TYPES[random.integers(len(TYPES))])
            expected = [random_array(random, dtype)[1] for _ in range(session.size)]
            sources = [random_array(random, dtype)[1] for _ in range(session.size)]
            own, source = session.array(expected[session.rank]), session.array(sources[session.rank])
            swapped = random.integers(2)  # axes in reverse order: Fortran's
            handles = session.allgather(own.handle.T if swapped else own.handle)
            for _ in range(plans):
                sender, receiver = random.integers(session.size, size=2)
                there = expected[receiver].T if swapped else expected[receiver]
                here = sources[sender].T if random.integers(2) else sources[sender]
                mine = source.T if here.strides != sources[sender].strides or here.shape != sources[sender].shape else source
                select, into = random_slices(random, here.shape, there.shape)
                there[into] = here[select]
                if session.rank == sender:
                    mine = mine if mine.shape == here.shape else source.T
                    assert mine.strides == here.strides and mine.tobytes() == here.tobytes()
                    with session.plan(landed=True, seat=(None, "client", "daemon")[random.integers(3)]) as plan:
                        plan.put(mine[select + (...,)], handles[receiver][into]).commit()
                        plan.start()
                        plan.wait(60)
                else:
                    random.integers(3)
                session.barrier()  # puts may overlap
            if own.tobytes() != expected[session.rank].tobytes():
                raise SystemExit(f"round {turn}: rank {session.rank} has other elements than numpy finds ({dtype}, {own.shape})")
            session.barrier()


main()
