"""What `import tca` promises, call by call, on any number of ranks: calls.py."""

import asyncio
import errno
import gc
import os
import pickle
import signal
import sys
import threading

import numpy as np
import tca


def fails(kind, call, *words, number=None):
    """It must raise this, and say so."""
    try:
        call()
    except kind as error:
        assert all(word in str(error) for word in words), f"{error!r} does not say {words}"
        assert number is None or error.errno == number, error
        return
    raise AssertionError(f"no {kind.__name__}")


def memory(session):
    array = session.zeros((6, 5), "i4")
    assert isinstance(array, tca.Array) and isinstance(array[1:, ::2], tca.Array) and not array.any()
    handle = pickle.loads(pickle.dumps(array[1:5, ::-2].handle))
    assert handle.shape == (4, 3) and handle.strides == array[1:5, ::-2].strides and handle.node == session.node
    assert type(pickle.loads(pickle.dumps(array))) is np.ndarray
    fails(BufferError, lambda: (array + 1)[:0].view(np.ndarray).view(tca.Array).handle, "session")
    fails(tca.Error, lambda: (array + 1).handle, number=errno.EINVAL)
    fails(TypeError, lambda: session.empty(3, object))
    fails(IndexError, lambda: handle[[0, 1]])
    fails(IndexError, lambda: handle[9])
    large = session.empty((1 << 20) + 3, "u1")
    large_handle = large.handle
    del large
    gc.collect()
    session.empty(1)  # frees it
    with session.plan() as plan:
        plan.put(array.view(np.uint8).reshape(-1), large_handle[:array.nbytes])
        fails(tca.Error, plan.commit, number=errno.ESTALE)

    region = session.region(10000)
    view = region.array((10, 10), "f8", offset=80)
    fails(BufferError, region.free, "view")
    part = view[3:]
    del view
    fails(BufferError, region.free)
    del part
    region.free()
    fails(ValueError, lambda: region.nbytes, "freed")

    own = np.arange(5000.0)
    with session.attach(own):
        with session.plan() as plan:
            plan.put(own[::-1], session.handle(own)[:]).commit()
    fails(tca.Error, lambda: session.handle(own), number=errno.EINVAL)
    assert own[7] == 7
    fails(ValueError, lambda: session.attach(b"bytes"), "read-only")
    bytearray_ = bytearray(9999)
    with session.attach(bytearray_) as region:
        assert region.nbytes >= 9999


def errors(session):
    array = session.zeros(10)
    handle = array.handle
    plan = session.plan()
    fails(ValueError, lambda: plan.put(array[:5], handle[:6]), "40 bytes", "48")
    fails(TypeError, lambda: plan.put(array[:5], handle.dtype), "handle")
    fails(TypeError, lambda: plan.put(array, session.zeros(10, "i8").handle), "float64", "int64")
    fails(tca.Error, lambda: plan.put(np.zeros(10), handle), "no region of this session")
    fails(tca.Error, plan.start)
    plan.free()
    plan.free()
    fails(ValueError, plan.start, "freed")
    fails(TypeError, lambda: session.plan(colour=3), "colour")
    fails(ValueError, lambda: session.plan(seat="driver"), "client", "daemon")
    fails(TimeoutError, lambda: session.wait_notified(session.rank, 3, 0.01))
    fails(tca.Error, lambda: session.wait_notified(session.rank, 3, 0), number=errno.ETIMEDOUT)
    fails(tca.Error, lambda: session.lookup("nothing", 0.01))
    fails(ValueError, lambda: session.wait_notified(session.rank, 3, -1))
    fails(ConnectionRefusedError, lambda: tca.open(socket="/nonexistent/tcad.sock"))
    fails(ValueError, lambda: session.allgather("x" * 5000), "4096")


def ring(session):
    """Everybody to the right: plain, with counters, in a plan that repeats, and by parts."""
    right, left = (session.rank + 1) % session.size, (session.rank - 1) % session.size
    a = session.full((4, 6), session.rank, "i8")
    counter = session.counter()
    handles = session.allgather((a.handle, counter.handle))
    with session.plan(name=f"ring {session.rank}", timed=True) as plan:
        assert plan.receipt is None
        plan.put(a[:, 1], handles[right][0][::-1, 4]).notify(right, 7).signal(handles[right][1], 3).commit()
        for step in range(1, 4):
            plan.start()
            session.wait_notified(left, 7)
            counter.wait(3 * step)
            plan.wait()
        assert plan.receipt.starts == 3 and plan.receipt.bytes == 32, plan.receipt
        assert plan.explain()
    assert counter.value == 9 and counter.test(8, "gt") and not counter.test(9, "ne")
    assert (a[:, 4] == left).all() and (a[:, :4] == session.rank).all()
    session.publish(f"a{session.rank}", a)
    assert session.lookup(f"a{right}").nbytes == a.nbytes
    session.barrier()
    if session.node_of(right) == session.node:
        assert session.reach(handles[right][0])[0, 0] == right
    with session.plan(repeat=True, seat="daemon") as plan:
        plan.wait_for(session.rank, 1).put(a[0, :1], a.handle[3, :1]).notify(session.rank, 2).commit()
        plan.start()
        with session.plan() as poke:
            poke.notify(session.rank, 1).commit()
            for _ in range(3):
                poke.start()
                session.wait_notified(session.rank, 2)
                poke.wait()
        plan.stop()
        plan.wait()
        assert plan.rounds == 3
    b = session.zeros(100, "u1")
    with session.plan(landed=True) as plan:
        plan.put(session.array(np.arange(100, dtype="u1")), b.handle, parts=True).commit()
        plan.start_parts([(10, 50, 5)])
        plan.wait()
    assert b.tolist() == [0] * 50 + [10, 11, 12, 13, 14] + [0] * 45
    session.barrier()


def collectives(ranks):
    session, n = ranks.session, ranks.size
    data, out = session.array([ranks.rank, 1.5], "f8"), session.empty(2)
    with ranks.Allreduce_init(data, out, "sum") as reduce:
        for _ in range(3):
            reduce()
            assert out.tolist() == [n * (n - 1) / 2, 1.5 * n], out
        assert reduce.algorithm in reduce.explain()
    every = session.empty((n, 2))
    with ranks.Allgather_init(data, every) as gather:
        gather()
    assert every[:, 0].tolist() == list(range(n))
    with ranks.Bcast_init(data, n - 1) as broadcast, ranks.Barrier_init() as barrier:
        broadcast()
        barrier()
    assert data[0] == n - 1
    blocks, turned = session.array([ranks.rank * 100 + i for i in range(n)], "i4"), session.empty(n, "i4")
    with ranks.Alltoall_init(blocks, turned) as alltoall:
        alltoall()
    assert turned.tolist() == [i * 100 + ranks.rank for i in range(n)]
    most = session.empty(n, "i4")
    with ranks.Reduce_init(blocks, most if ranks.rank == 0 else None, "max", 0) as reduce:
        reduce()
    assert ranks.rank or most.tolist() == [(n - 1) * 100 + i for i in range(n)]
    share = session.empty(1, "i4")
    with ranks.Reduce_scatter_init(blocks, share) as scatter:
        scatter()
    assert share[0] == sum(i * 100 + ranks.rank for i in range(n))
    fails(ValueError, lambda: ranks.Allgather_init(data, session.empty(n * 2 + 1)))
    fails(ValueError, lambda: ranks.Bcast_init(session.empty((4, 4))[:, 1]), "contiguous")


def halo(ranks):
    """On a torus of one dimension, whose elements are rows of three."""
    session, n = ranks.session, ranks.size
    pair = [session.zeros((2 + 4 + 1, 3), "f4") for _ in range(2)]
    for array in pair:
        array[2:6] = ranks.rank * 10 + np.arange(4)[:, None]
    with ranks.halo(tuple(pair), [n], [(2, 1)], periodic=True) as exchange:
        assert len(exchange.faces) == 2 and exchange.buffer == 0
        exchange()
        assert exchange.buffer == 1
        left, right = (ranks.rank - 1) % n * 10, (ranks.rank + 1) % n * 10
        assert pair[0][:, 0].tolist() == [left + 2, left + 3, *(ranks.rank * 10 + i for i in range(4)), right], pair[0]
        assert not pair[1][:2].any()
        assert exchange.receipt(0).starts == 1


def messages(ranks):
    n = ranks.size
    right, left = (ranks.rank + 1) % n, (ranks.rank - 1) % n
    with ranks.messenger() as messenger:
        matrix = np.arange(10000).reshape(100, 100) * (ranks.rank + 1)
        found = np.zeros((50, 100), matrix.dtype)
        with messenger.Irecv(found.T[:, ::-1], left, 3) as receive, messenger.Isend(matrix[:, ::2], right, 3) as send:
            messenger.wait_all([receive, send], 60)
            assert receive.status == (left, 3, matrix.nbytes // 2)
        assert np.array_equal(found.T[:, ::-1], np.arange(10000).reshape(100, 100)[:, ::2] * (left + 1))
        messenger.send({"from": ranks.rank}, right, 9)
        assert messenger.recv() == {"from": left}
        send, receive = messenger.Send_init(matrix[3], right, 1), messenger.Recv_init(found[0], left, 1)
        for _ in range(3):
            receive.start()
            send.start()
            assert messenger.wait_any([None, receive], 60) == 1
            send.wait(60)
        assert found[0, 1] == 301 * (left + 1)
        never = messenger.Irecv(found, left, 77)
        assert not never.test()
        never.release()
        never.release()
        short = np.zeros(1, "u1")
        with messenger.Irecv(short, left, 5) as receive:
            messenger.Send(b"too long", right, 5)
            fails(tca.Error, lambda: receive.wait(60), number=errno.EMSGSIZE)


def groups(session):
    half = session.split(session.rank % 2, -session.rank)
    assert half.rank_in_session(half.rank) == session.rank
    assert half.rank_of(session.rank) == half.rank
    assert half.allgather(session.rank) == [r for r in reversed(range(session.size)) if r % 2 == session.rank % 2]
    collectives(half)
    messages(half)
    halo(half)
    assert session.split(None if session.rank else 0) is None or session.rank == 0
    half.free()
    fails(ValueError, half.barrier, "freed")


def interrupts(session):
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    fails(KeyboardInterrupt, lambda: session.wait_notified(session.rank, 9, 60))
    timer.join()


def coroutines(session):
    async def both():
        with session.plan(seat="daemon") as plan:
            plan.wait_for(session.rank, 4).notify(session.rank, 5).commit()
            plan.start()
            waiting = asyncio.create_task(session.notification(session.rank, 5, 60))
            await asyncio.sleep(0)
            with session.plan() as poke:
                poke.notify(session.rank, 4).commit()
                poke.start()
                await asyncio.gather(waiting, plan.completion(60), poke.completion(60))
        try:
            await session.notification(session.rank, 5, 0.01)
        except TimeoutError:
            return
        raise AssertionError("no TimeoutError")

    asyncio.run(both())


def children(session, array):
    """A child of fork() has no session, and does no harm to its parent's."""
    pid = os.fork()
    if pid == 0:
        try:
            fails(ValueError, session.barrier, "closed")
            session.close()
            os._exit(0)
        except BaseException as error:  # pylint: disable=broad-except
            print(repr(error), file=sys.stderr)
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
    array[0] = 1
    session.barrier()


def main():
    with tca.open(timeout=60) as session:
        everybody = session.allgather(session.rank)
        assert everybody == list(range(session.size)) and session.fileno() >= 0 and session.node_of(0) >= 0 and session.node_name
        memory(session)
        errors(session)
        ring(session)
        collectives(session)
        halo(session)
        messages(session)
        groups(session)
        interrupts(session)
        coroutines(session)
        outliving = [session.full(100, 3.0), session.full(1 << 18, 4.0), session.region(5000).array(100, "u1")]
        children(session, outliving[0])
        lazy = session.plan()  # released with the session
    assert session.closed and outliving[0][0] == 1 and (outliving[0][1:] == 3).all() and (outliving[1] == 4).all() and not outliving[2].any()
    outliving[1][:] = 5
    session.close()
    fails(ValueError, lazy.start, "closed")
    fails(ValueError, lambda: session.empty(1), "closed")
    copies = outliving[1] + 1
    del outliving
    gc.collect()
    assert copies[0] == 6
    with tca.open(group=f"again {os.getpid()}", size=1) as alone:  # the addresses can be used again
        assert alone.zeros(1 << 18).any() == np.False_
    assert tca.simulate("allreduce", 1000, 8)["ns"] > 0


main()
