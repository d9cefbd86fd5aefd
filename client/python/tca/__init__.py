"""Plan once, start many: puts and notifications between the processes of a cluster, over tcad.

    import tca

    with tca.open() as session:                         # rank and size from tca-cluster run, mpirun or srun
        a = session.zeros((100, 100))                   # a numpy array that other ranks can put into
        handles = session.allgather(a.handle)
        right = (session.rank + 1) % session.size
        with session.plan() as plan:
            plan.put(a[1:-1, -2], handles[right][1:-1, 0])
            plan.notify(right)
            plan.commit()
            for step in range(1000):
                plan.start()
                session.wait_notified((session.rank - 1) % session.size)
                plan.wait()

Arrays are layouts: slices of any shape and strides, on both sides, are put without copies in between. Methods whose names begin with
upper case take buffers; those in lower case take any object, as in mpi4py. Times are seconds. Failures are exceptions of class
tca.Error, a subclass of OSError, with the text of the library: object, limit, value, remedy.

The C headers (tca.h, tca-halo.h, tca-coll.h, tca-msg.h, tca-group.h, tca-signal.h) say what memory may be read and written when, which
holds here, too. A process that ends without Session.close() is, to the others, one that has died: use `with`."""

from ._base import DEFAULT, Error, text as _text
from ._coll import Collective, Halo, simulate
from ._layout import Layout
from ._memory import Array, ArrayHandle, Region
from ._msg import ANY, Messenger, Request, Status
from ._native import lib as _lib
from ._plan import Counter, Plan, Receipt, admin, tcactl
from ._session import Group, Session, from_mpi, open  # pylint: disable=redefined-builtin

__version__ = _text(_lib.tca_version())
if __version__.split(".")[:2] != [str(_lib.TCA_VERSION_MAJOR), str(_lib.TCA_VERSION_MINOR)]:
    raise ImportError(f"libtca {__version__} is loaded, but this module was made for {_lib.TCA_VERSION_MAJOR}.{_lib.TCA_VERSION_MINOR}")

__all__ = ["ANY", "Array", "ArrayHandle", "Collective", "Counter", "DEFAULT", "Error", "Group", "Halo", "Layout", "Messenger", "Plan",
           "Receipt", "Region", "Request", "Session", "Status", "admin", "from_mpi", "open", "simulate", "tcactl"]
