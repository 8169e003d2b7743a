#!/usr/bin/python3
"""The network goes and comes back under a running program, without a word: the session goes on, every command runs exactly
once, and the result is that of an undisturbed run. After the grace time it is an error and one line. The cable is a veth pair
into a network namespace; without the right to make one the tests are skipped."""
import itertools
import os
import random
import subprocess
import sys
import threading
import time
import unittest

from cable import CLIENT_END, FAR_SIDE, HOST, HOST_END, NAMESPACE, CableCase, ip, plug
from harness import SOFTGPU, Server, clean_environment, wait_until

CALLS = os.environ["SLUICE_CALLS"]
CHAIN = os.environ["SLUICE_CHAIN"]
COMMANDS = 10_000
SEED = 20261130
# Silence is noticed soon, so that cuts can be short.
QUICK = {"SLUICE_HEARTBEAT_MS": "50", "SLUICE_HEARTBEAT_TIMEOUT_MS": "300"}


class Undisturbed:
    """The result of the chain on the driver itself; computed once."""
    result = None

    @classmethod
    def get(cls):
        if cls.result is None:
            env = clean_environment({"LD_LIBRARY_PATH": os.path.dirname(SOFTGPU), "SLUICE_LOG": "error"})
            out = subprocess.run([CHAIN, str(SEED), str(COMMANDS)], env=env, stdout=subprocess.PIPE, text=True, check=True).stdout
            cls.result = out.splitlines()[-1]
        return cls.result


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

    def serve(self, grace="2m", listen=f'"{HOST}:0"', options=""):
        server = Server(server=f'grace = "{grace}"\nallow_plaintext_network = true\n{options}', listen=listen)
        self.addCleanup(server.close)
        return server

    def run_chain(self, server, env=None):
        self.log = f"{server.folder}/client.log"
        return server.start_client(CHAIN, str(SEED), str(COMMANDS), server=server.tcp, prefix=FAR_SIDE,
                                   env={**QUICK, "SLUICE_LOG": "info", "SLUICE_LOG_FILE": self.log, **(env or {})})

    def resumptions(self):
        with open(self.log, encoding="utf-8") as text:
            return text.read().count("The session is resumed")

    def client_log(self):
        with open(self.log, encoding="utf-8") as text:
            return text.read()


class Cuts(Case):
    def survive(self, seed, ways):
        chance = random.Random(seed)
        server = self.serve()
        client = self.run_chain(server)
        progress = Progress(client)
        for number in itertools.count():
            goal = progress.at() + chance.randrange(100, 1500)
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
        self.assertEqual(Undisturbed.get(), progress.last(), f"{self.client_log()}\n{server.log()}")
        self.assertEqual(0, client.wait(60))
        self.assertGreater(self.resumptions(), 0, self.client_log())

    def test_the_clients_cable_is_pulled_at_random_points(self):
        self.survive(1, [unplug_client])

    def test_the_servers_cable_is_pulled_at_random_points(self):
        self.survive(2, [unplug_server])

    def test_packets_vanish_at_random_points(self):
        self.survive(3, [drop, drop, unplug_client, unplug_server])


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
    def test_a_server_that_was_restarted_behind_the_cut_says_so(self):
        server = self.serve()
        client = self.run_chain(server)
        progress = Progress(client)
        self.assertTrue(wait_until(lambda: progress.at() > 100))
        drop()
        self.assertTrue(wait_until(lambda: "new connections are tried" in self.client_log()))
        port = server.tcp.rsplit(":", 1)[1]
        server.kill()
        server.write("sluiced.toml", server.config_text('grace = "2m"\nallow_plaintext_network = true', "", f'"{HOST}:{port}"'))
        server.start()
        mend()
        self.assertRegex(progress.last(), "failed CUDA_ERROR_DEVICE_UNAVAILABLE")
        self.assertEqual(3, client.wait(60))
        self.assertIn("the server was restarted; the program's GPU state is lost", self.client_log())


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
