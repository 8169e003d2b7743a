#!/usr/bin/python3
"""Who is gone and who is only silent: a client stopped by a debugger keeps its session, one whose cable is pulled keeps it
for the grace time. The cable is a veth pair into a network namespace; without the right to make one the test is skipped."""
import os
import signal
import subprocess
import sys
import unittest

from cable import FAR_SIDE, HOST, CableCase, plug
from harness import Server, wait_until

RAW_CLIENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "raw_client.py")


class LifeLine(CableCase):
    def serve(self, grace):
        self.server = Server(server=f'grace = "{grace}"\nallow_plaintext_network = true', listen=f'"{HOST}:0"')
        self.addCleanup(self.server.close)

    def far_client(self):
        """Not the shim, which gives a silent server up by itself: only the server's patience is in question."""
        client = subprocess.Popen([*FAR_SIDE, sys.executable, RAW_CLIENT, self.server.tcp, self.server.token],
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
        plug(False)
        self.assertTrue(wait_until(lambda: self.state_of(unplugged) == "gone"), self.server.log())
        self.assertIn("silent for the grace time", self.server.log())
        self.assertEqual("open", self.state_of(stopped))

    def test_a_client_that_is_plugged_in_again_in_time_goes_on(self):
        self.serve("2m")
        client = self.far_client()
        plug(False)
        self.assertTrue(wait_until(lambda: self.state_of(client) == "suspect"), self.server.log())
        # Longer than the host kernel's own keepalive would have left the data connection.
        self.assertTrue(wait_until(lambda: self.server.session_of(client)["idle_ms"] > 15_000), self.server.log())
        plug(True)
        client.stdin.write("\n")
        client.stdin.flush()
        self.assertEqual("alive\n", client.stdout.readline() or client.communicate()[1])
        self.assertTrue(wait_until(lambda: self.state_of(client) == "open"), self.server.log())

    def test_a_killed_client_is_gone_long_before_the_grace_time(self):
        self.serve("2m")
        client = self.far_client()
        client.kill()
        self.assertTrue(wait_until(lambda: self.state_of(client) == "gone"), self.server.log())


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
