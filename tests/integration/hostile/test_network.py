#!/usr/bin/env python3
"""Garbage, silence and impostors on the daemons' ports: nodes that are up stay up, and their transfers continue."""

import contextlib
import os
import random
import re
import secrets
import socket
import struct
import time

import wire
from hostile import HostileCase, until
from connections import rail_port
from harness import ADDRESS, DEADLINE_S, main


def control_port(cluster, node):
    with open(cluster.file, encoding="ascii") as file:
        return int(re.search(rf"^node{node} .*address={ADDRESS}:(\d+)", file.read(), re.MULTILINE).group(1))


def listening_ports(pid):
    inodes = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{fd}")
        except FileNotFoundError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    ports = set()
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(path, encoding="ascii") as table:
            for line in table.readlines()[1:]:
                words = line.split()
                if words[3] == "0A" and words[9] in inodes:
                    ports.add(int(words[1].split(":")[1], 16))
    return ports


def connect(port):
    peer = socket.create_connection((ADDRESS, port), 60, (ADDRESS, 0))  # from a node's host: the rail's port drops others
    peer.settimeout(DEADLINE_S)
    return peer


def ended(peer):
    """Whether the other side closes the connection."""
    try:
        while peer.recv(65536):
            pass
    except ConnectionResetError:
        pass
    except TimeoutError:
        return False
    return True


def send(peer, data):
    try:
        peer.sendall(data)
    except (BrokenPipeError, ConnectionResetError):
        pass


def peer_hello(version=wire.VERSION, node=1, name="node1", incarnation=7, cluster="test", rails=b"", daemon="9.9", link=bytes(16),
               resume=b""):
    return wire.blob(wire.PEER_HELLO, wire.number(1, version) + wire.number(2, node) + wire.blob(3, name) +
                     wire.fixed(4, incarnation) + wire.blob(5, cluster) + rails + wire.blob(7, daemon) + wire.blob(10, link) +
                     wire.blob(11, resume))


def frame(payload, tag=0, **arguments):
    return wire.header(len(payload), tag, **arguments) + payload


def frames(data):
    """(kind, fields) of each frame in a stream."""
    at = 0
    while at + 16 <= len(data):
        length = struct.unpack_from("<I", data, at + 8)[0]
        (kind, values), = wire.fields(data[at + 16:at + 16 + length]).items()
        yield kind, wire.fields(values[0])
        at += 16 + length


CLIENT_HELLO = bytes.fromhex("16030100a5010000a10303") + bytes(158)


class Ports(HostileCase):
    RAILS = "shm ofi"

    def garbage(self):
        chance = random.Random(3)
        yield b""
        yield b"\0"
        yield b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
        yield CLIENT_HELLO
        yield CLIENT_HELLO[:20]
        yield wire.header(0xFFFFFFFF) + bytes(100000)
        yield wire.header(wire.INLINE_MAX + 1) + bytes(wire.INLINE_MAX + 1)
        yield frame(peer_hello(node=77))
        yield frame(b"")
        yield frame(peer_hello(), flags=wire.IN_MEMFD)
        yield frame(peer_hello(), version=wire.VERSION + 1)
        for length in (1, 4, 15, 16, 100, 1000, 100000):
            yield chance.randbytes(length)

    def attack(self, cluster, port, streams):
        """All kinds of garbage, closed at once or left open; slow connections; many silent ones."""
        daemon = cluster[0]
        opened = []
        for data in self.garbage():
            for leave in (False, True):
                peer = connect(port)
                send(peer, data)
                if leave:
                    opened.append(peer)
                else:
                    peer.close()
        slow = [connect(port) for _ in range(3)]
        for byte in CLIENT_HELLO[:10]:
            for peer in slow:
                send(peer, bytes([byte]))
            time.sleep(0.05)
        opened += slow + [connect(port) for _ in range(200)]
        self.assert_well(daemon)
        self.assert_moving(daemon, streams)
        self.assertTrue(daemon.ping(cluster[1]))
        for peer in opened:
            peer.close()

    def test_control_port_tls(self):
        cluster = self.cluster(2, options={"control.request_timeout": "2s"})
        streams = self.bystanders(cluster, (0, 1), ("any",))
        with self.undisturbed(cluster, streams):
            self.attack(cluster, control_port(cluster, 0), streams)
            peer = connect(control_port(cluster, 0))
            self.assertTrue(ended(peer), "who says nothing is thrown out")
            peer.close()

    def test_control_port_plain(self):
        cluster = self.cluster(2, options={"control.request_timeout": "2s", "control.security": "plain"})
        streams = self.bystanders(cluster, (0, 1), ("any",))
        with self.undisturbed(cluster, streams):
            self.attack(cluster, control_port(cluster, 0), streams)

    def test_rail_port(self):
        cluster = self.cluster(2)
        ports = listening_ports(cluster[0].process.pid) - {control_port(cluster, 0)}
        self.assertGreater(len(ports), 0)
        streams = self.bystanders(cluster, (0, 1), ("any",))
        # libfabric 1.17 does not notice the end of a connection that never sent a request: do not count these
        with self.undisturbed(cluster, streams, count_fds=False):
            for port in ports:
                self.attack(cluster, port, streams)
        self.assertEqual({rail["state"] for rail in cluster[0].tcactl("status")["rails"]} - {"absent"}, {"up"})

    def test_leaked_descriptors(self):
        """libfabric 1.17 keeps connections that ended in the middle of a message: the daemon counts and reports them."""
        cluster = self.cluster(2, fresh=True)
        streams = self.bystanders(cluster, (0, 1), ("any",))

        def attack():
            for kind in range(9):
                for _ in range(20):
                    peer = connect(rail_port(cluster[0]))
                    send(peer, struct.pack(">BBHIQQQ", 3, kind, 256, 0, 0, 0, 0))  # the beginning of a request of 256 bytes
                    peer.close()

        def leaked():
            families = {family["name"]: family for family in cluster[0].tcactl("stats")["families"]}
            return sum(sample["value"] for sample in families["tcad_rail_leaked_descriptors"]["samples"])

        self.assertEqual(leaked(), 0)
        with self.undisturbed(cluster, streams, count_fds=False):
            until(lambda: attack() or leaked() > 0, "it counts them")
            self.assertTrue(any("that libfabric keeps" in text for text in cluster[0].tcactl("status")["warnings"]))
            self.assertIn("descriptors of connections that have ended", cluster[0].log_text())

    def test_impostors(self):
        """Invalid hellos: they get the reason in reply, and the node's real connection survives."""
        cluster = self.cluster(2, options={"control.security": "plain", "control.request_timeout": "2s"})
        streams = self.bystanders(cluster, (0, 1), ("any",))
        rails = wire.blob(6, wire.blob(1, "ofi") + wire.blob(2, bytes(257)))
        long_names = [wire.blob(6, wire.blob(field, "r" * 32)) for field in (1, 3, 4)]
        incarnation = int(cluster[1].tcactl("status")["daemon"]["incarnation"], 16)
        with self.undisturbed(cluster, streams):
            for hello, name, *texts in (
                    (peer_hello(version=wire.VERSION + 1), "-EPROTONOSUPPORT", "node1", f"version {wire.VERSION + 1}", "tcad 9.9", f"version {wire.VERSION}", "same release"),
                    (peer_hello(cluster="other"), "-EINVAL", 'cluster "other"', '"test"', "cluster files differ"),
                    (peer_hello(node=0, name="node0"), "-EEXIST", "both have id 0", "node.id"),
                    (peer_hello(node=77, name="x"), "-ENOENT", "no node with id 77"),
                    (peer_hello(node=(1 << 32) - 1), "-ENOENT", "no node with id 4294967295"),
                    (peer_hello(name="eve"), "-EINVAL", "id 1", "eve", "node1"),
                    (peer_hello(incarnation=0), "-EPROTO", "incarnation"),
                    (peer_hello(rails=rails), "-EPROTO", "limits"),
                    *((peer_hello(rails=long_name), "-EPROTO", "limits") for long_name in long_names),
                    (peer_hello(rails=wire.blob(6, b"") * 17), "-EPROTO", "limits"),
                    (peer_hello(link=bytes(15)), "-EPROTO", "link"),
                    (peer_hello(resume=bytes(17)), "-EPROTO", "link"),
                    (peer_hello(incarnation=incarnation, resume=bytes(16)), "-EACCES", "does not have the key of the link"),
                    (peer_hello(rails=wire.blob(6, wire.blob(1, "r" * 70)) * 20), "-EPROTO", "limits")):
                with self.subTest(texts=texts):
                    peer = connect(control_port(cluster, 0))
                    peer.sendall(frame(hello))
                    data = b""
                    while more := peer.recv(65536):
                        data += more
                    answers = dict(frames(data))
                    self.assertIn(wire.FAILURE, answers)
                    self.assertEqual(wire.STATUS[answers[wire.FAILURE][1][0]], name)
                    for text in texts:
                        self.assertIn(text, answers[wire.FAILURE][2][0].decode())
                    peer.close()
            for payload in (wire.hello(), wire.blob(wire.PEER_BIND, b""), wire.blob(wire.DONE, b""), wire.admin("status"),
                            wire.blob(wire.PEER_WELCOME, wire.blob(1, bytes(16))), wire.blob(wire.PEER_LEAVE, b""),
                            b"\xff" * 20, wire.blob(wire.PEER_PING, b"")):
                peer = connect(control_port(cluster, 0))
                peer.sendall(frame(payload))
                self.assertTrue(ended(peer))
                peer.close()
            self.assertEqual(cluster[0].state_of(cluster[1]), "up")
            metrics = cluster[0].tcactl_raw("stats", "--openmetrics").stdout
            self.assertIn("tcad_refused_resumes_total 1\n", metrics)
            self.assertIn('tcad_node_reconnects_total{node="node1"} 0\n', metrics)


class Settings(HostileCase):
    """Two nodes with different configurations. The third and the fourth have equal ones, and do not notice."""

    def misfit(self, change, *texts):
        cluster = self.cluster(4)
        streams = self.bystanders(cluster, (0, 1), ("any",))
        with self.others(cluster, streams):
            misfit = cluster[3]
            misfit.kill()
            change(misfit, cluster)
            misfit.configure()
            misfit.start()
            misfit.wait_ready()
            for asker, asked in ((cluster[0], misfit), (misfit, cluster[0])):
                self.assertFalse(asker.ping(asked))
            errors = [next(node["last_error"] for node in asker.tcactl("nodes")["nodes"] if node["id"] == asked.number)
                      for asker, asked in ((cluster[0], misfit), (misfit, cluster[0]))]
            log = cluster[0].log_text() + misfit.log_text() + " ".join(errors)
            for text in texts:
                self.assertIn(text, log)

    @contextlib.contextmanager
    def others(self, cluster, streams):
        for stream in streams:
            stream.begin()
        yield
        for node in cluster.nodes[:3]:
            self.assert_well(node)
        self.assert_moving(cluster[0], streams)
        self.assertTrue(cluster[0].ping(cluster[1]))
        for stream in streams:
            self.assertGreater(stream.finish(), 0)

    def test_wrong_key(self):
        def change(node, cluster):
            key = os.path.join(node.directory, "other.key")
            with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
                file.write(secrets.token_hex(32))
            node.options = {**node.options, "control.key_file": key}
        self.misfit(change, "cluster keys differ", "key_file")

    def test_plain_against_tls(self):
        def change(node, cluster):
            node.options = {**node.options, "control.security": "plain"}
        self.misfit(change, "control.security of both nodes")

    def test_another_cluster(self):
        def change(node, cluster):
            file = os.path.join(node.directory, "cluster.conf")
            with open(cluster.file, encoding="ascii") as old, open(file, "w", encoding="ascii") as new:
                new.write(old.read().replace("cluster = test", "cluster = elsewhere"))
            node.options = {**node.options, "node.cluster_file": file}
        self.misfit(change, '"elsewhere"', '"test"', "cluster files differ")


if __name__ == "__main__":
    main()
