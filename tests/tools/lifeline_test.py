#!/usr/bin/python3
"""Who is gone and who is only silent: a client stopped by a debugger keeps its session, one whose cable is pulled keeps it
for the grace time. The cable is a veth pair into a network namespace; without the right to make one the test is skipped."""
import os
import signal
import subprocess
import sys
import unittest

from harness import Server, wait_until

NAMESPACE = f"sluice-{os.getpid()}"
HOST_END, CLIENT_END = f"slh{os.getpid()}", f"slc{os.getpid()}"
HOST = "10.231.77.1"
RAW_CLIENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "raw_client.py")


def ip(*words):
    return subprocess.run(["ip", *words], stderr=subprocess.PIPE, text=True, check=False)


def lay_cable():
    steps = [("netns", "add", NAMESPACE), ("link", "add", HOST_END, "type", "veth", "peer", "name", CLIENT_END, "netns", NAMESPACE),
             ("addr", "add", f"{HOST}/24", "dev", HOST_END), ("link", "set", HOST_END, "up"),
             ("-n", NAMESPACE, "addr", "add", "10.231.77.2/24", "dev", CLIENT_END), ("-n", NAMESPACE, "link", "set", CLIENT_END, "up")]
    try:
        for step in steps:
            done = ip(*step)
            if done.returncode != 0:
                return done.stderr
    except FileNotFoundError:
        return "no ip command"
    return ""


class LifeLine(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        problem = lay_cable()
        if problem:
            cls.tearDownClass()
            raise unittest.SkipTest(f"no network namespace: {problem}")

    @classmethod
    def tearDownClass(cls):
        try:
            ip("link", "del", HOST_END)
            ip("netns", "del", NAMESPACE)
        except FileNotFoundError:
            pass

    def setUp(self):
        self.plug(True)

    def serve(self, grace):
        self.server = Server(server=f'grace = "{grace}"\nallow_plaintext_network = true', listen=f'"{HOST}:0"')
        self.addCleanup(self.server.close)

    def plug(self, is_in):
        ip("-n", NAMESPACE, "link", "set", CLIENT_END, "up" if is_in else "down")

    def far_client(self):
        """Not the shim, which gives a silent server up by itself: only the server's patience is in question."""
        client = subprocess.Popen(["ip", "netns", "exec", NAMESPACE, sys.executable, RAW_CLIENT, self.server.tcp, self.server.token],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.server.clients.append(client)
        self.assertEqual("ready\n", client.stdout.readline())
        return client

    def state_of(self, client):
        session = self.server.session_of(client)
        return session["state"] if session else "gone"

    def test_a_stopped_client_stays_and_an_unplugged_one_goes_after_the_grace_time(self):
        self.serve("3s")
        stopped = self.server.hold(server=self.server.tcp)
        stopped.send_signal(signal.SIGSTOP)
        unplugged = self.far_client()
        self.plug(False)
        self.assertTrue(wait_until(lambda: self.state_of(unplugged) == "gone"), self.server.log())
        self.assertIn("silent for the grace time", self.server.log())
        self.assertEqual("open", self.state_of(stopped))

    def test_a_client_that_is_plugged_in_again_in_time_goes_on(self):
        self.serve("2m")
        client = self.far_client()
        self.plug(False)
        self.assertTrue(wait_until(lambda: self.state_of(client) == "suspect"), self.server.log())
        self.plug(True)
        client.stdin.write("\n")
        client.stdin.flush()
        self.assertEqual("alive\n", client.stdout.readline())
        self.assertTrue(wait_until(lambda: self.state_of(client) == "open"), self.server.log())

    def test_a_killed_client_is_gone_long_before_the_grace_time(self):
        self.serve("2m")
        client = self.far_client()
        client.kill()
        self.assertTrue(wait_until(lambda: self.state_of(client) == "gone"), self.server.log())


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
