"""The protocols of tcad, made by hand: frames, messages, layouts and handles that libtca would never send."""

import array
import os
import pathlib
import re
import socket
import struct

DEADLINE_S = 60 * float(os.environ.get("TCA_TEST_SLOW", "1"))  # usable without ../processes.py

LIMITS = pathlib.Path(__file__).resolve().parents[3] / "proto" / "limits.h"
MAGIC, IN_MEMFD = 0x46414354, 1
VERSION = int(re.search(r"#define PROTO_VERSION (\d+)", LIMITS.read_text(encoding="ascii"))[1])
INLINE_MAX, PAYLOAD_MAX = 64 * 1024, 64 << 20

# fields of Message (proto/tca.proto)
FAILURE, DONE, HELLO, WELCOME, GROUP_JOIN, GROUP_MEMBERS, GATHER, GATHERED = 1, 2, 10, 11, 12, 13, 14, 15
PUBLISH, LOOKUP, FOUND, REGION_ALLOC, REGION_GRANTED, REGION_FREE = 16, 17, 18, 20, 21, 22
REGION_REACH, REGION_REACHED = 23, 24
GROUP_SPLIT, GROUP_PART, GROUP_RELEASE, GROUP_SHRINK = 38, 39, 42, 43
PLAN_COMMIT, PLAN_COMMITTED, PLAN_RELEASE, PAIR_LOST, PAIR_OFFER, PLAN_TRY, PAIR_RAILS, ADMIN, DOCUMENT, EVENT = 30, 31, 32, 34, 35, 36, 37, 40, 41, 50
PEER_HELLO, PEER_PING, PEER_PONG, PEER_BIND, PEER_BOUND, PEER_UNBIND, PEER_SESSION_GONE, PEER_REGION_GONE = range(60, 68)
PEER_WELCOME, PEER_LEAVE, PEER_GROUP_ENDS = 69, 74, 83
PEER_GROUP_JOIN, PEER_TEAM, PEER_PUBLISH, PEER_LOOKUP = range(70, 74)
PEER_OFFER, PEER_OFFERED, PEER_PAIR_GONE, PEER_PAIR_OFFER = 76, 77, 78, 80

# proto/status.c
STATUS = {0: "ok", 6: "-ENOMEM", 7: "-EACCES", 8: "-EBUSY", 9: "-EEXIST", 11: "-EINVAL", 12: "-EMFILE", 15: "-EDQUOT", 16: "-EPROTO",
          19: "-EPROTONOSUPPORT", 21: "-ENETDOWN", 22: "-EHOSTDOWN", 23: "-ESTALE", 24: "-EOWNERDEAD", 25: "-ECANCELED", 26: "-ETIMEDOUT",
          29: "-E2BIG", 3: "-ENOENT", 35: "-EFAULT"}

SEALS = 0x0001 | 0x0002 | 0x0004 | 0x0008  # F_SEAL_SEAL, _SHRINK, _GROW, _WRITE
F_ADD_SEALS = 1033


# ---- protobuf

def varint(value):
    out = bytearray()
    value &= (1 << 64) - 1
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field, value):
    return varint(field << 3) + varint(value)


def fixed(field, value):
    return varint(field << 3 | 1) + struct.pack("<Q", value)


def varints(data):
    """Of a packed field."""
    values, shift = [0], 0
    for byte in data:
        values[-1] |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            values.append(0)
            shift = 0
    return values[:-1]


def blob(field, data):
    if isinstance(data, str):
        data = data.encode()
    return varint(field << 3 | 2) + varint(len(data)) + data


def fields(data):
    """field -> list of values: numbers, or bytes."""
    out, at = {}, 0

    def take():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = take()
        kind = key & 7
        if kind == 0:
            value = take()
        elif kind == 1:
            value, at = struct.unpack_from("<Q", data, at)[0], at + 8
        elif kind == 2:
            size = take()
            value, at = data[at:at + size], at + size
        else:
            value, at = struct.unpack_from("<I", data, at)[0], at + 4
        out.setdefault(key >> 3, []).append(value)
    return out


# ---- messages

def hello(version=VERSION, admin=False, name="hostile", group_size=1, pid=0, pid_namespace=0):
    return blob(HELLO, number(1, version) + (number(2, 1) if admin else b"") + blob(3, name) + number(4, group_size) + number(5, pid) +
                number(6, pid_namespace))


def group_join(name, rank, size, timeout_ns=10**10):
    return blob(GROUP_JOIN, blob(1, name) + number(2, rank) + number(3, size) + number(4, timeout_ns))


def gather(sequence, data=b"", group=0, timeout_ns=10**10):
    return blob(GATHER, number(1, sequence) + blob(2, data) + number(3, timeout_ns) + fixed(4, group))


def group_split(sequence, colour=0, key=0, group=0, timeout_ns=10**10):
    return blob(GROUP_SPLIT, number(1, sequence) + number(2, colour) + number(3, key << 1 ^ key >> 31) + number(4, timeout_ns) +
                fixed(5, group))


def group_shrink(group=0, timeout_ns=10**10):
    return blob(GROUP_SHRINK, fixed(1, group) + number(2, timeout_ns))


def group_release(group):
    return blob(GROUP_RELEASE, fixed(1, group))


def admin(verb, argument=""):
    return blob(ADMIN, blob(1, verb) + blob(2, argument))


def region_alloc(size, flags=0, address=0):
    return blob(REGION_ALLOC, number(1, size) + number(2, flags) + number(3, address))


IN_PLACE, DMABUF = 1, 2  # REGION_*


def region_reach(handle):
    return blob(REGION_REACH, blob(1, handle))


def put(source, handle, source_layout, target_layout, source_offset=0, target_offset=0, combine=0, element=0, ordered=0,
        parts=0):
    return blob(1, number(1, source) + number(2, source_offset) + blob(3, source_layout) + blob(4, handle) +
                number(5, target_offset) + blob(6, target_layout) + number(7, combine) + number(8, element) + number(9, ordered) +
                number(10, parts))


def notify(rank, slot):
    return blob(2, number(1, rank) + number(2, slot))


def wait(rank, slot, count=1):
    return blob(3, number(1, rank) + number(2, slot) + number(3, count))


def signal(handle, offset, value):
    return blob(5, blob(1, handle) + number(2, offset) + number(3, value))


def wait_signal(region, offset, value):
    return blob(6, number(1, region) + number(2, offset) + number(3, value))


FLUSH = number(4, 1)  # behind a step


def collective(operation, algorithm, *candidates):
    """candidates: algorithm, nanoseconds"""
    return blob(1, operation) + blob(2, algorithm) + b"".join(blob(10, blob(1, name) + number(2, ns)) for name, ns in candidates)


def commit(*chains, name="plan", channel=0, rail="", seat=0, timeout_ns=0, repeat=0, parts_at=0, tries=0, found_seat=0, said=None):
    """Each chain is a list of steps. said: about a collective operation."""
    body = blob(1, name) + number(2, channel) + number(4, seat) + blob(10, rail)
    for chain in chains:
        body += blob(5, b"".join(blob(1, step) for step in chain))
    return blob(PLAN_COMMIT, body + number(6, timeout_ns) + number(11, repeat) + number(12, parts_at) +
                number(13, tries) + number(14, found_seat) + (blob(15, said) if said else b""))


def plan_try(plan, seat=0, rail=0, chains=1, found=0, turn=0, below=0, joins=1):
    return blob(PLAN_TRY, number(1, plan) + fixed(2, chains) + number(3, rail) + number(4, found) + number(5, turn) + number(6, seat)
                + number(7, below) + number(8, joins))


def release(plan):
    return blob(PLAN_RELEASE, number(1, plan))


# ---- layouts

BLOCK, LOOP, LIST = 1, 2, 3


def op(kind, body=0, count=0, offset=0, stride=0):
    return struct.pack("<IIQqq", kind, body, count, offset, stride)


def program(ops, pairs=(), magic=0x4C414354, version=VERSION, depth=0, op_count=None, pair_count=None, size=0, blocks=0, lower=0,
            upper=0, lb=0, ub=0, signature=0, alignment=1, marked=0):
    header = struct.pack("<IHHIIQQqqqqQII", magic, version, depth, len(ops) if op_count is None else op_count,
                         len(pairs) if pair_count is None else pair_count, size, blocks, lower, upper, lb, ub, signature, alignment,
                         marked)
    return header + b"".join(ops) + b"".join(struct.pack("<qQ", *pair) for pair in pairs)


def contiguous(size):
    return program([op(BLOCK, count=size)], size=size, blocks=1, upper=size, ub=size)


# ---- handles

def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


HANDLE_FIELDS = {"magic": (0, "I"), "version": (4, "H"), "flags": (6, "H"), "node": (8, "I"), "check": (12, "I"),
                 "incarnation": (16, "Q"), "region": (24, "Q"), "key0": (32, "Q"), "key1": (40, "Q"), "offset": (48, "Q"),
                 "length": (56, "Q")}


def sealed(handle):
    """With its checksum."""
    handle = bytes(handle)
    return handle[:12] + struct.pack("<I", crc32c(handle[:12] + handle[16:])) + handle[16:]


def handle_field(handle, name):
    offset, kind = HANDLE_FIELDS[name]
    return struct.unpack_from("<" + kind, handle, offset)[0]


def with_field(handle, name, value):
    handle = bytearray(handle)
    offset, kind = HANDLE_FIELDS[name]
    struct.pack_into("<" + kind, handle, offset, value & ((1 << 8 * struct.calcsize(kind)) - 1))
    return sealed(handle)


def siphash(key, message):
    """SipHash-2-4, 128 bits, as two numbers."""
    def rotate(x, bits):
        return (x << bits | x >> (64 - bits)) & mask

    def rounds(count):
        for _ in range(count):
            v[0] = (v[0] + v[1]) & mask
            v[1] = rotate(v[1], 13) ^ v[0]
            v[0] = rotate(v[0], 32)
            v[2] = (v[2] + v[3]) & mask
            v[3] = rotate(v[3], 16) ^ v[2]
            v[0] = (v[0] + v[3]) & mask
            v[3] = rotate(v[3], 21) ^ v[0]
            v[2] = (v[2] + v[1]) & mask
            v[1] = rotate(v[1], 17) ^ v[2]
            v[2] = rotate(v[2], 32)

    mask = (1 << 64) - 1
    v = [key[0] ^ 0x736F6D6570736575, key[1] ^ 0x646F72616E646F6D ^ 0xEE, key[0] ^ 0x6C7967656E657261, key[1] ^ 0x7465646279746573]
    padded = message + bytes(7 - len(message) % 8) + bytes([len(message) & 0xFF])
    for word, in struct.iter_unpack("<Q", padded):
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xEE
    rounds(4)
    first = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    rounds(4)
    return first, v[0] ^ v[1] ^ v[2] ^ v[3]


def sign(handle, secret):
    """With the key that matches its fields."""
    names = struct.pack("<5Q", handle_field(handle, "version") << 32 | handle_field(handle, "node"),
                        *(handle_field(handle, name) for name in ("incarnation", "region", "offset", "length")))
    for name, half in zip(("key0", "key1"), siphash(secret, names)):
        handle = with_field(handle, name, half)
    return handle


# ---- frames

def header(length, tag=1, magic=MAGIC, version=VERSION, flags=0):
    return struct.pack("<IHHII", magic, version, flags, length, tag)


def memfd(data, seals=SEALS):
    import fcntl
    fd = os.memfd_create("hostile", os.MFD_ALLOW_SEALING)
    for at in range(0, len(data), 1 << 20):
        os.write(fd, data[at:at + (1 << 20)])
    if seals:
        fcntl.fcntl(fd, F_ADD_SEALS, seals)
    return fd


class Gone(Exception):
    """The daemon has ended the connection."""


class Failure(Exception):
    def __init__(self, status, text):
        self.name, self.text = STATUS.get(status, f"status {status}"), text
        super().__init__(f"{self.name}: {text}")


class Client:
    """A connection to a tcad without a library in between."""

    def __init__(self, path, timeout=DEADLINE_S):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # Without settimeout(), which would make it non-blocking, so that a full backlog is an error at once.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", int(timeout), 0))
        self.socket.connect(path)
        self.socket.settimeout(timeout)
        self.tag = 0
        self.events = []

    @classmethod
    def of_user(cls, uid, *arguments):
        """A connection by another user; for root."""
        os.seteuid(uid)
        try:
            return cls(*arguments)
        finally:
            os.seteuid(0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def raw(self, data, fds=()):
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        try:
            self.socket.sendmsg([data], rights)
        except (BrokenPipeError, ConnectionResetError):
            raise Gone() from None

    def send(self, payload, fds=()):
        """A valid frame, with a new tag. Long ones go in a memfd."""
        self.tag += 1
        if len(payload) <= INLINE_MAX:
            self.raw(header(len(payload), self.tag) + payload, fds)
            return
        fd = memfd(payload)
        try:
            self.raw(header(len(payload), self.tag, flags=IN_MEMFD), [fd, *fds])
        finally:
            os.close(fd)

    def receive(self):
        """(tag, kind, fields, descriptors) of the next frame."""
        try:
            data, rights, _, _ = self.socket.recvmsg(INLINE_MAX + 16, socket.CMSG_SPACE(16 * 4))
        except ConnectionResetError:
            raise Gone() from None
        if not data:
            raise Gone()
        fds = [fd for level, kind, raw in rights if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS
               for fd in array.array("i", raw[:len(raw) // 4 * 4])]
        _, _, flags, length, tag = struct.unpack_from("<IHHII", data)
        payload = data[16:]
        if flags & IN_MEMFD:
            payload = os.pread(fds[0], length, 0)
            os.close(fds.pop(0))
        (kind, values), = fields(payload).items()
        return tag, kind, fields(values[0]), fds

    def answer(self):
        """(kind, fields, descriptors) of the reply to the last request, or Failure."""
        while True:
            tag, kind, body, fds = self.receive()
            if kind == EVENT:
                self.events.append(body)
                for fd in fds:
                    os.close(fd)
            elif tag == self.tag:
                break
        if kind == FAILURE:
            raise Failure(body.get(1, [0])[0], body.get(2, [b""])[0].decode("utf-8", "replace"))
        return kind, body, fds

    def ask(self, payload, fds=()):
        self.send(payload, fds)
        return self.answer()

    # ---- requests of a correct client

    def open(self, **arguments):
        _, self.welcome, self.fds = self.ask(hello(**arguments))
        return self

    def alloc(self, size):
        """(region, address, handle); makes the memory, as the library does, and closes its descriptor."""
        _, body, fds = self.ask(region_alloc(size))
        self.secret = body[5][0], body[6][0]
        for fd in fds:
            os.posix_fallocate(fd, 0, size)
            os.close(fd)
        return body[1][0], body[2][0], body[4][0]

    def gone(self):
        """Whether the daemon closes this connection (call it only if it must)."""
        try:
            while True:
                self.receive()
        except Gone:
            return True
        except TimeoutError:
            return False
