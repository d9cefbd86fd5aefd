"""Hosts: nodes with networks, and files such as /etc/hosts, of their own. A bridge joins the networks. Needs root."""

import ctypes
import os
import socket
import subprocess
import tempfile
import threading

import harness
from processes import die_with_us

LIBC = ctypes.CDLL(None, use_errno=True)
NEW_MOUNTS, NEW_NETWORK = 0x20000, 0x40000000  # CLONE_NEWNS, CLONE_NEWNET
PRIVATE, BIND = 1 << 18 | 1 << 14, 1 << 12  # MS_PRIVATE | MS_REC, MS_BIND


def system_call(name, *arguments):
    if getattr(LIBC, name)(*arguments) != 0:
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")


def may_make_hosts():
    """Whether this process may make networks; call harness.own_network() before."""
    if os.geteuid() != 0:
        return False
    return subprocess.run(["unshare", "-nm", "ip", "link", "add", "name", "test", "type", "veth"], check=False,
                          capture_output=True).returncode == 0


def mount_files(files):
    """In this process only: puts files over those of the system. files: path -> path."""
    system_call("unshare", NEW_MOUNTS)
    system_call("mount", b"none", b"/", None, PRIVATE, None)
    for path, ours in files.items():
        system_call("mount", ours.encode(), path.encode(), None, BIND, None)


class NameServer:
    """Answers nothing, or that no name exists, and counts. In the network of the thread that makes it."""

    ADDRESS = "127.9.9.9"

    def __init__(self, answers):
        self.answers = answers
        self.names = []  # of all queries
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((self.ADDRESS, 53))
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while True:
            query, client = self.socket.recvfrom(512)
            if not query:
                return
            self.names.append(self.name_of(query))
            if self.answers:  # the same with the flags of a reply, and NXDOMAIN
                self.socket.sendto(query[:2] + b"\x81\x83" + query[4:], client)

    @staticmethod
    def name_of(query):
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1:at + 1 + query[at]].decode())
            at += 1 + query[at]
        return ".".join(labels)

    def end(self):
        self.socket.sendto(b"", (self.ADDRESS, 53))
        self.thread.join()
        self.socket.close()


class Host(harness.Node):
    """A node with a network of its own if its cluster has networks."""

    def popen(self, words, descriptors=None, **options):
        files = {f"/etc/{name}": os.path.join(self.cluster.directory, name if shared else f"{name}.{self.number}")
                 for name, shared in (("hosts", False), ("resolv.conf", True), ("nsswitch.conf", True))}

        def begin():
            die_with_us()
            if self.cluster.networks:
                system_call("setns", self.cluster.networks[self.number], NEW_NETWORK)
            mount_files(files)

        return subprocess.Popen(words, preexec_fn=begin, **options)

    def run_there(self, *words):
        process = self.popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        output, _ = process.communicate(timeout=harness.DEADLINE_S)
        if process.returncode != 0:
            raise AssertionError(f"{words} ended with {process.returncode}: {output}")
        return output

    def listens(self):
        """Addresses and ports on which it listens, as ss shows them."""
        lines = self.run_there("ss", "-Hltnp").splitlines()
        return [line.split()[3] for line in lines if "tcad" in line]


class Hosts(harness.Cluster):
    """hosts: the lines of /etc/hosts, by node. addresses: those of the cluster file. interfaces: by node, addresses of its
    interface eth0 ("10.0.0.1/24"); without them, all are in the network of the test."""

    make_node = Host

    def __init__(self, addresses, hosts, options=None, interfaces=None):
        self.addresses, self.networks = addresses, []
        super().__init__(len(addresses), options=options)
        for number, lines in enumerate(hosts):
            self.write(f"hosts.{number}", "127.0.0.1 localhost", *lines)
        self.write("resolv.conf", f"nameserver {NameServer.ADDRESS}", "options timeout:30 attempts:1")
        self.write("nsswitch.conf", "hosts: files dns")
        for number, there in enumerate(interfaces or []):
            self.add_network(number, there)

    def address(self, number):
        return self.addresses[number]

    def write(self, name, *lines):
        with open(os.path.join(self.directory, name), "w", encoding="ascii") as file:
            file.writelines(line + "\n" for line in lines)

    def add_network(self, number, addresses):
        with open("/proc/self/ns/net", encoding="ascii") as own:
            system_call("unshare", NEW_NETWORK)
            self.networks.append(os.open("/proc/self/ns/net", os.O_RDONLY))
            self.ip("link set lo up")
            system_call("setns", own.fileno(), NEW_NETWORK)
        if number == 0:
            self.ip("link add name bridge type bridge", "link set bridge up")
        node = self.nodes[number]
        node.run_there("ip", "link", "add", "name", "eth0", "type", "veth", "peer", "name", f"v{number}", "netns", str(os.getpid()))
        self.ip(f"link set v{number} master bridge up")
        for address in addresses:
            node.run_there("ip", "address", "add", address, "dev", "eth0", *(["nodad"] if ":" in address else []))
        node.run_there("ip", "link", "set", "eth0", "up")

    @staticmethod
    def ip(*commands):
        for command in commands:
            subprocess.run(["ip", *command.split()], check=True)

    def remove(self):
        for number, network in enumerate(self.networks):
            self.ip(f"link delete v{number}")  # a network without processes goes later
            os.close(network)
        if self.networks:
            self.ip("link delete bridge")
        super().remove()


class Case(harness.Case):
    def hosts(self, *arguments, **options):
        cluster = Hosts(*arguments, **options)
        self.addCleanup(self.take_down, cluster)
        return cluster
