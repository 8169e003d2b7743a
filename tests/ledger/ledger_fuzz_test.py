#!/usr/bin/python3
"""Eight programs of two tenants allocate, free and load modules at random, and some are killed: at the end of each round the ledger
is what softgpu's own account is, no tenant ever has more than its slice, and in the end nothing is left. The seed is fixed; what
runs beside what is up to the machine."""
import os
import random
import signal
import threading
import unittest

from account import held, remove_account, truth
from harness import Server, wait_until

FUZZ = os.environ["SLUICE_LEDGER_FUZZ"]
SEED = 20261201
CLIENTS, ROUNDS, STEPS = 8, 6, 150


def tearDownModule():
    remove_account()


class Watch(threading.Thread):
    """Looks all the time whether a tenant has more than its slice."""

    def __init__(self, server):
        super().__init__()
        self.server, self.looks, self.too_much, self.is_over = server, 0, [], threading.Event()

    def run(self):
        while not self.is_over.is_set():
            for tenant in self.server.ask("tenant", "list"):
                if tenant["used_bytes"] > tenant["memory_limit_bytes"]:
                    self.too_much.append(tenant)
            self.looks += 1


class LedgerFuzz(unittest.TestCase):
    def setUp(self):
        self.random = random.Random(SEED)
        self.server = Server()
        self.addCleanup(self.server.close)
        self.tokens, self.clients, self.started, self.refused = {}, [], 0, 0
        for name in ("left", "right"):
            self.assertEqual(0, self.server.ctl("tenant", "set", name, "--memory", "96MiB").returncode)
            self.tokens[name] = self.server.write(f"{name}.token", self.server.ask("token", "new", name)["token"] + "\n")

    def start(self):
        name = ("left", "right")[self.started % 2]
        self.started += 1
        self.clients.append(self.server.start_client(FUZZ, str(SEED + self.started), str(STEPS),
                                                     env={"SLUICE_TENANT": name, "SLUICE_TOKEN_FILE": self.tokens[name]}))

    def begin_round(self):
        for client in self.clients:
            client.stdin.write("go\n")
            client.stdin.flush()

    def end_round(self, client):
        words = client.stdout.readline().split()
        self.assertEqual(["done", str(STEPS)], words[:2], f"{words} {self.server.log()}")
        self.refused += int(words[2])

    def ledger_is_right(self):
        """Each session's memory is what softgpu counts for its worker, and the device's what it counts in all."""
        sessions = self.server.ask("ps")
        device, processes = truth(*[session["worker_pid"] for session in sessions])
        return all(processes[session["worker_pid"]] == held(session) for session in sessions) and \
            device == sum(held(session) for session in sessions) and \
            device == sum(held(tenant) for tenant in self.server.ask("tenant", "list"))

    def kill(self, client, pid):
        os.kill(pid, signal.SIGKILL)
        self.clients.remove(client)
        client.communicate(timeout=60)

    def settle(self):
        self.assertTrue(wait_until(lambda: len(self.server.ask("ps")) == len(self.clients)))
        self.assertTrue(wait_until(self.ledger_is_right), (self.server.ask("ps"), truth(*[s["worker_pid"] for s in self.server.ask("ps")])))

    def end(self):
        for client in self.clients:
            client.communicate(timeout=60)
            self.assertEqual(0, client.returncode)
        self.clients = []
        self.assertTrue(wait_until(lambda: not self.server.ask("ps")))
        self.assertEqual([0, 0], [held(t) for t in self.server.ask("tenant", "list") if t["name"] in self.tokens])
        self.assertTrue(wait_until(lambda: truth()[0] == 0), truth())

    def test_the_ledger_is_what_the_device_says_and_nothing_leaks(self):
        watch = Watch(self.server)
        watch.start()
        self.addCleanup(watch.join)
        self.addCleanup(watch.is_over.set)
        for _ in range(ROUNDS):
            while len(self.clients) < CLIENTS:
                self.start()
            self.begin_round()
            victims = self.random.sample(self.clients, 2)
            worker = self.server.session_of(victims[1])["worker_pid"]
            watch.is_over.wait(self.random.uniform(0, 0.3))  # somewhere in the round, or just behind it
            self.kill(victims[0], victims[0].pid)
            self.kill(victims[1], worker)
            for client in self.clients:
                self.end_round(client)
            self.settle()
        self.end()
        self.assertTrue(watch.is_alive(), "it met an error")
        watch.is_over.set()
        watch.join()
        self.assertEqual([], watch.too_much)
        self.assertGreater(watch.looks, ROUNDS)
        self.assertGreater(self.refused, 0, "nobody was ever refused: the slices are too large to prove anything")
        self.assertNotIn("inconsistent", self.server.log())


if __name__ == "__main__":
    unittest.main(verbosity=2)
