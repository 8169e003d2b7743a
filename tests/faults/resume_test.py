#!/usr/bin/python3
"""The network goes and comes back under a running program, without a word: the session goes on, every command runs exactly
once, and the result is that of an undisturbed run. After the grace time it is an error and one line. The cable is a veth pair
into a network namespace; without the right to make one the tests are skipped. Encrypted sessions do the same, with strangers at
the server's door who know all that crosses the network in the clear."""
import itertools
import os
import random
import socket
import struct
import subprocess
import sys
import threading
import time
import unittest

from cable import CLIENT_END, FAR_SIDE, HOST, HOST_END, NAMESPACE, CableCase, ip, plug
from harness import BUILD, SOFTGPU, Server, clean_environment, wait_until
from raw_client import constant, field, frame, receive
from tls_server import TlsServer

CALLS = os.environ["SLUICE_CALLS"]
CHAIN = os.environ["SLUICE_CHAIN"]
COMMANDS = 10_000
SEED = 20261130
CHAIN_WORDS = (str(SEED), str(COMMANDS))
BULK_WORDS = (str(SEED), "300", "bulk")
# Silence is noticed soon, so that cuts can be short.
QUICK = {"SLUICE_HEARTBEAT_MS": "50", "SLUICE_HEARTBEAT_TIMEOUT_MS": "300"}


class Undisturbed:
    """The result of the chain on the driver itself; computed once."""
    results = {}

    @classmethod
    def get(cls, words):
        if words not in cls.results:
            env = clean_environment({"LD_LIBRARY_PATH": os.path.dirname(SOFTGPU), "SLUICE_LOG": "error"})
            out = subprocess.run([CHAIN, *words], env=env, stdout=subprocess.PIPE, text=True, check=True).stdout
            cls.results[words] = out.splitlines()[-1]
        return cls.results[words]


class Progress:
    """What a running chain has said so far."""

    def __init__(self, client):
        self.client, self.lines = client, []
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self):
        for line in self.client.stdout:
            self.lines.append(line.rstrip())

    def at(self):
        marks = [int(line.split()[1]) for line in self.lines if line.startswith("at ")]
        return marks[-1] if marks else 0

    def is_over(self):
        return not self.thread.is_alive()

    def last(self):
        self.thread.join(120)
        return self.lines[-1] if self.lines else ""


def unplug_client():
    plug(False)


def unplug_server():
    """The client's end notices that nobody is at the other."""
    ip("link", "set", HOST_END, "down")


def drop():
    """Both ends are up, and what is sent goes nowhere: the neighbour is somebody else."""
    for where, device, host in (((), HOST_END, HOST.rsplit(".", 1)[0] + ".2"), (("-n", NAMESPACE), CLIENT_END, HOST)):
        ip(*where, "neigh", "replace", host, "lladdr", "02:00:00:00:00:99", "dev", device, "nud", "permanent")


def mend():
    for where, device, host in (((), HOST_END, HOST.rsplit(".", 1)[0] + ".2"), (("-n", NAMESPACE), CLIENT_END, HOST)):
        ip(*where, "neigh", "del", host, "dev", device)
    ip("link", "set", HOST_END, "up")
    plug(True)


class Case(CableCase):
    def setUp(self):
        mend()

    def serve(self, grace="2m"):
        server = Server(server=f'grace = "{grace}"\nallow_plaintext_network = true', listen=f'"{HOST}:0"')
        self.addCleanup(server.close)
        return server

    def run_chain(self, server, env=None, words=CHAIN_WORDS):
        self.log = f"{server.folder}/client.log"
        return server.start_client(CHAIN, *words, server=server.tcp, prefix=FAR_SIDE,
                                   env={**QUICK, "SLUICE_LOG": "info", "SLUICE_LOG_FILE": self.log, **(env or {})})

    def resumptions(self):
        with open(self.log, encoding="utf-8") as text:
            return text.read().count("The session is resumed")

    def client_log(self):
        with open(self.log, encoding="utf-8") as text:
            return text.read()


class Surviving(Case):
    def survive(self, seed, ways, server=None, env=None, words=CHAIN_WORDS, pace=(100, 1500)):
        chance = random.Random(seed)
        server = server or self.serve()
        client = self.run_chain(server, env, words)
        progress = Progress(client)
        for number in itertools.count():
            goal = progress.at() + chance.randrange(*pace)
            wait_until(lambda: progress.at() >= goal or progress.is_over(), 60)
            if progress.is_over():
                break
            chance.choice(ways)()
            before = self.resumptions()
            if number % 3 == 2:
                time.sleep(chance.uniform(0, 0.2))  # how long the cut is: too short for anybody to notice but TCP
            else:
                # Down until the client looks for the server, and for a while after that.
                wait_until(lambda: self.client_log().count("new connections are tried") > before or progress.is_over())
                time.sleep(chance.uniform(0, 0.5))
            mend()
            if chance.random() < 0.5:
                wait_until(lambda: self.resumptions() > before or progress.is_over(), 3)
        self.assertEqual(Undisturbed.get(words), progress.last(), f"{self.client_log()}\n{server.log()}")
        self.assertEqual(0, client.wait(60))
        self.assertGreater(self.resumptions(), 0, self.client_log())


class Cuts(Surviving):
    def test_the_clients_cable_is_pulled_at_random_points(self):
        self.survive(1, [unplug_client])

    def test_the_servers_cable_is_pulled_at_random_points(self):
        self.survive(2, [unplug_server])

    def test_packets_vanish_at_random_points(self):
        self.survive(3, [drop, drop, unplug_client, unplug_server])


class EncryptedCase(Case):
    def serve(self, grace="2m"):
        server = TlsServer('client_ca = "FOLDER/ca.crt"', f'grace = "{grace}"', listen=f'"{HOST}:0"',
                           rest='[[tenant]]\nname = "certified"\n')
        self.addCleanup(server.close)
        return server


class Strangers:
    """Whoever knows a session's number and the server's: connections that claim to replace its data connection, with huge
    attempt numbers, garbage, or silence."""

    def __init__(self, server):
        self.address = tuple(server.tcp.rsplit(":", 1))
        self.instance = self.instance_of(server)
        self.silent, self.handed_in, self.stops = [], 0, False
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    @staticmethod
    def instance_of(server):
        """As another tenant learns it, or anybody who listens."""
        root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
        numbers = (constant(f"{root}/protocol/wire.h", "kProtocolVersion"),
                   constant(f"{BUILD}/gen/protocol/opcodes.h", "kOpcodeTableHash"))
        with open(server.token, "rb") as token, socket.socket(socket.AF_UNIX) as asking:
            asking.connect(server.unix.removeprefix("unix:"))
            asking.sendall(frame(1, field(1, struct.pack("<I", numbers[0])), field(2, struct.pack("<Q", numbers[1])),
                                 field(3, struct.pack("<Q", 4)), field(4, b"a"), field(5, token.read().strip())))
            return receive(asking)[1][64]

    def run(self):
        words = itertools.cycle([b"", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01", os.urandom(300)])
        while not self.stops:
            stranger = socket.create_connection((self.address[0], int(self.address[1])))
            stranger.settimeout(10)
            resume = frame(11, field(1, struct.pack("<Q", 1)), field(3, self.instance), field(4, struct.pack("<I", 1)),
                           field(5, struct.pack("<Q", 2**64 - 1)), field(32, b"\x01"))
            try:
                stranger.sendall(resume)
                self.handed_in += receive(stranger)[0] == 12
                stranger.sendall(next(words))
            except (EOFError, OSError):
                pass
            self.silent.append(stranger)
            if len(self.silent) > 8:
                self.silent.pop(0).close()
            time.sleep(0.002)  # how fast they are: the client needs a core, too

    def close(self):
        self.stops = True
        self.thread.join()
        for stranger in self.silent:
            stranger.close()


class EncryptedCuts(EncryptedCase, Surviving):
    def test_the_cable_is_pulled_at_random_points(self):
        server = self.serve()
        self.survive(4, [unplug_client, unplug_server], server, server.with_certificate("certified"))
        self.assertIn("tenant=certified", server.log())

    def test_packets_vanish_at_random_points(self):
        server = self.serve()
        self.survive(5, [drop, drop, unplug_client, unplug_server], server, server.with_token())
        self.assertIn("encrypted=true", server.log())
        self.assertIn("a data connection is resumed", server.log())

    def test_strangers_disturb_nothing_while_the_client_resumes(self):
        server = self.serve()
        strangers = Strangers(server)
        self.addCleanup(strangers.close)
        self.survive(6, [unplug_client, drop], server, server.with_token())
        self.assertGreater(strangers.handed_in, 50)


BULK = {"words": BULK_WORDS, "pace": (5, 60)}


class BulkCuts(Surviving):
    """Most of what is under way when the cable is pulled is data, on lanes of its own."""

    def test_the_cable_is_pulled_while_copies_are_under_way(self):
        self.survive(7, [unplug_client, unplug_server], env={"SLUICE_LANES": "3"}, **BULK)
        self.assertIn("Lanes for bulk data beside the records: 3", self.client_log())

    def test_packets_vanish_while_copies_are_under_way(self):
        self.survive(8, [drop, drop, unplug_client, unplug_server], env={"SLUICE_LANES": "1"}, **BULK)
        self.assertIn("Lanes for bulk data beside the records: 1", self.client_log())


class EncryptedBulkCuts(EncryptedCase, Surviving):
    def test_the_cable_is_pulled_while_copies_are_under_way(self):
        server = self.serve()
        self.survive(9, [unplug_client, drop], server, {**server.with_token(), "SLUICE_LANES": "2"}, **BULK)
        self.assertIn("Lanes for bulk data beside the records: 2", self.client_log())
        self.assertIn("encrypted=true", server.log())

    def test_strangers_disturb_nothing_while_lanes_are_resumed(self):
        server = self.serve()
        strangers = Strangers(server)
        self.addCleanup(strangers.close)
        self.survive(10, [unplug_client, unplug_server], server, {**server.with_token(), "SLUICE_LANES": "2"}, **BULK)
        self.assertGreater(strangers.handed_in, 50)


class TooLong(Case):
    def test_a_cut_longer_than_the_grace_time_is_an_error_and_one_line(self):
        for scenario in ("sync", "copy-in", "launches", "threads"):
            with self.subTest(scenario):
                mend()
                server = self.serve(grace="2s")
                client = server.start_client(CALLS, scenario, server=server.tcp, prefix=FAR_SIDE, env=QUICK)
                unplug_client()
                out, err = client.communicate(timeout=60)
                self.assertEqual(3, client.returncode, out + err)
                self.assertRegex(out, r"^failed CUDA_ERROR_DEVICE_UNAVAILABLE .*\nagain same\n$")
                self.assertEqual(1, err.count("\n"), err)
                self.assertIn("has not come back within its grace time of 2 s", err)
                self.assertTrue(wait_until(lambda: server.ask("ps") == []), server.log())

    def test_a_client_that_comes_too_late_learns_that_its_session_is_over(self):
        server = self.serve(grace="2s")
        client = server.start_client(CALLS, "idle", server=server.tcp, prefix=FAR_SIDE, env=QUICK)
        unplug_client()
        self.assertTrue(wait_until(lambda: server.ask("ps") == []), server.log())
        mend()
        out, err = client.communicate("\n", timeout=60)
        self.assertEqual((3, 1), (client.returncode, err.count("\n")), out + err)
        self.assertIn("The session with the server is lost", err)


class Restarted(Case):
    def environment(self, server):
        return {}

    def test_a_server_that_was_restarted_behind_the_cut_says_so(self):
        server = self.serve()
        client = self.run_chain(server, self.environment(server))
        progress = Progress(client)
        self.assertTrue(wait_until(lambda: progress.at() > 100))
        drop()
        self.assertTrue(wait_until(lambda: "new connections are tried" in self.client_log()))
        port = server.tcp.rsplit(":", 1)[1]
        server.kill()
        with open(server.config, encoding="utf-8") as text:
            server.write("sluiced.toml", text.read().replace(f'"{HOST}:0"', f'"{HOST}:{port}"'))
        server.start()
        mend()
        self.assertRegex(progress.last(), "failed CUDA_ERROR_DEVICE_UNAVAILABLE")
        self.assertEqual(3, client.wait(60))
        self.assertIn("the server was restarted; the program's GPU state is lost", self.client_log())


class EncryptedRestarted(EncryptedCase, Restarted):
    def environment(self, server):
        return server.with_token()


class Off(Case):
    def test_without_resuming_silence_is_the_end(self):
        server = self.serve()
        client = server.start_client(CALLS, "sync", server=server.tcp, prefix=FAR_SIDE, env={**QUICK, "SLUICE_RESUME": "off"})
        unplug_client()
        out, err = client.communicate(timeout=60)
        self.assertEqual(3, client.returncode, out + err)
        self.assertIn("the server has been silent for", err)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
