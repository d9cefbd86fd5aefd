"""A FUSE file system whose files one process cannot close: it never gets an answer. For root."""

import ctypes
import mmap
import os
import signal
import struct

LOOKUP, FORGET, GETATTR, OPEN, FLUSH, INIT, INTERRUPT, BATCH_FORGET = 1, 2, 3, 14, 25, 26, 36, 42
DETACH = 2  # MNT_DETACH
SET_PDEATHSIG = 1


class FileSystem:
    """With the file "file" in the directory, which the victim (a pid) cannot close. OSError: it may not be mounted.

    Served by a process of its own, as the test may wait for it inside of Python's lock (subprocess closes files between fork() and
    exec()). With this process the connection ends, and everybody goes on who waits."""

    def __init__(self, directory, victim):
        self.directory, self.victim = directory, victim
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.shared = mmap.mmap(-1, mmap.PAGESIZE)
        device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other"
        if self.libc.mount(b"hostile", directory.encode(), b"fuse", 0, options.encode()) != 0:
            os.close(device)
            raise OSError(ctypes.get_errno(), "cannot mount")
        self.server = os.fork()
        if self.server == 0:
            self.libc.prctl(SET_PDEATHSIG, signal.SIGKILL)
            try:
                self.serve(device)
            finally:
                os._exit(0)
        os.close(device)

    def end(self):
        if self.server:
            os.kill(self.server, signal.SIGKILL)
            os.waitpid(self.server, 0)
            self.server = None
            self.libc.umount2(self.directory.encode(), DETACH)

    def open(self):
        return os.open(os.path.join(self.directory, "file"), os.O_RDONLY)

    @property
    def closing(self):
        """How many of the victim's threads wait."""
        return struct.unpack_from("<Q", self.shared)[0]

    @staticmethod
    def attributes(node):
        kind, links = (0o40755, 2) if node == 1 else (0o100644, 1)
        return struct.pack("<6Q10I", node, 0, 0, 0, 0, 0, 0, 0, 0, kind, links, 0, 0, 0, 4096, 0)

    def serve(self, device):
        while True:
            request = os.read(device, 1 << 20)
            _, opcode, unique, node, _, _, thread = struct.unpack_from("<IIQQIII", request)
            if opcode == FLUSH and os.path.exists(f"/proc/{self.victim}/task/{thread}"):
                struct.pack_into("<Q", self.shared, 0, self.closing + 1)
                continue
            if opcode in (FORGET, BATCH_FORGET, INTERRUPT):
                continue
            reply = {
                INIT: struct.pack("<4I2H2I2HI7I", 7, 31, 0, 0, 0, 0, 4096, 0, 0, 0, *[0] * 8),
                LOOKUP: struct.pack("<4Q2I", 2, 0, 3600, 3600, 0, 0) + self.attributes(2),
                GETATTR: struct.pack("<Q2I", 3600, 0, 0) + self.attributes(node),
                OPEN: struct.pack("<Q2I", 1, 0, 0),
            }.get(opcode, b"")
            os.write(device, struct.pack("<IiQ", 16 + len(reply), 0, unique) + reply)
