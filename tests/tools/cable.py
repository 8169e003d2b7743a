"""A network cable that a test can pull: a veth pair into a network namespace."""
import os
import subprocess
import time
import unittest

NAMESPACE = f"sluice-{os.getpid()}"
HOST_END, CLIENT_END = f"slh{os.getpid()}", f"slc{os.getpid()}"
FAR_SIDE = ("ip", "netns", "exec", NAMESPACE)
# One network for each process: tests run side by side.
NETWORK = f"10.231.{os.getpid() % 250}"
HOST = f"{NETWORK}.1"


def ip(*words):
    return subprocess.run(["ip", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)


def lay():
    steps = [("netns", "add", NAMESPACE), ("link", "add", HOST_END, "type", "veth", "peer", "name", CLIENT_END, "netns", NAMESPACE),
             ("addr", "add", f"{HOST}/24", "dev", HOST_END), ("link", "set", HOST_END, "up"),
             ("-n", NAMESPACE, "addr", "add", f"{NETWORK}.2/24", "dev", CLIENT_END), ("-n", NAMESPACE, "link", "set", CLIENT_END, "up")]
    try:
        for step in steps:
            done = ip(*step)
            if done.returncode != 0:
                return done.stderr
    except FileNotFoundError:
        return "no ip command"
    return ""


def take_away():
    try:
        ip("link", "del", HOST_END)
        ip("netns", "del", NAMESPACE)
    except FileNotFoundError:
        pass


def is_up():
    """Both ends carry packets: what is sent before is lost, and a first connection that has to repeat itself is a slow one."""
    ends = (ip("-o", "link", "show", "dev", HOST_END), ip("-n", NAMESPACE, "-o", "link", "show", "dev", CLIENT_END))
    return all("LOWER_UP" in end.stdout and "state UP" in end.stdout for end in ends)


def plug(is_in):
    ip("-n", NAMESPACE, "link", "set", CLIENT_END, "up" if is_in else "down")


class CableCase(unittest.TestCase):
    """Skipped, with the reason, where no namespace may be made."""

    @classmethod
    def setUpClass(cls):
        problem = lay()
        if problem:
            take_away()
            raise unittest.SkipTest(f"no network namespace: {problem}")

    @classmethod
    def tearDownClass(cls):
        take_away()

    def setUp(self):
        plug(True)
        end = time.monotonic() + 10
        while not is_up() and time.monotonic() < end:
            time.sleep(0.01)
