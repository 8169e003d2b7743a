#!/usr/bin/python3
"""What dies, and what must not die with it: kill -9 at both ends, garbage on the sockets. BUILD_DIR comes in SLUICE_BUILD."""
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import unittest
import warnings

warnings.simplefilter("ignore", ResourceWarning)  # /proc files are closed by the collector soon enough

BUILD = os.environ["SLUICE_BUILD"]
HOLD = os.environ["SLUICE_HOLD"]


def wait_until(condition, seconds):
    """True as soon as condition() holds, False when the time is over."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    return condition()


def children_of(pid):
    """Processes that pid has started and not yet waited for."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", encoding="utf-8") as file:
                    stat = file.read().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(stat[1]) == pid:  # a zombie too: its parent has not noticed its end
                found.append(int(entry))
    return set(found)


class Server:
    """One sluiced on softgpu with a UNIX and a TCP listener; no pre-started workers, so that every child is a session."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="sluice-faults.")
        self.token = os.path.join(self.folder, "token")
        with open(self.token, "w", encoding="utf-8") as out:
            out.write("a-token-for-the-fault-tests\n")
        os.chmod(self.token, 0o600)
        config = os.path.join(self.folder, "sluiced.toml")
        with open(config, "w", encoding="utf-8") as out:
            out.write(f"""
[server]
driver = "{BUILD}/lib/softgpu/libcuda.so.1"
listen = ["unix:{self.folder}/s", "127.0.0.1:0"]
prestart_workers = 0
[[tenant]]
name = "a"
memory_limit = "512MiB"
token_file = "{self.token}"
[[tenant]]
name = "b"
memory_limit = "512MiB"
token_file = "{self.token}"
""")
        read_end, write_end = os.pipe()
        self.log = open(os.path.join(self.folder, "log"), "w+", encoding="utf-8")
        self.process = subprocess.Popen(
            [f"{BUILD}/bin/sluiced", "--config", config, "--print-ready-fd", str(write_end), "--log-level", "debug"],
            pass_fds=[write_end], stderr=self.log, stdout=self.log)
        os.close(write_end)
        with os.fdopen(read_end, encoding="utf-8") as ready:
            self.ready = ready.readline().split()
        if not self.ready:
            self.log.seek(0)
            raise RuntimeError("sluiced did not start: " + self.log.read())
        self.unix = next(a for a in self.ready[1:] if a.startswith("unix:"))
        self.tcp = next(a for a in self.ready[1:] if not a.startswith("unix:"))

    def workers(self):
        return children_of(self.process.pid)

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def client(self, tenant, mib, server=None):
        env = dict(os.environ, SLUICE_SERVER=server or self.unix, SLUICE_TENANT=tenant, SLUICE_TOKEN_FILE=self.token,
                   LD_LIBRARY_PATH=f"{BUILD}/lib/sluice", SLUICE_LOG="warn")
        return subprocess.Popen([HOLD, str(mib)], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)


class Faults(unittest.TestCase):
    def setUp(self):
        self.server = Server()
        self.addCleanup(self.server.close)
        self.clients = []

    def tearDown(self):
        for client in self.clients:
            if client.poll() is None:
                client.kill()
            client.communicate()

    def start(self, tenant, mib, server=None):
        client = self.server.client(tenant, mib, server)
        self.clients.append(client)
        words = client.stdout.readline().split()
        self.assertEqual("ready", words[0] if words else client.stderr.read(), words)
        return client, int(words[1]), int(words[2])

    def finish(self, client):
        out, err = client.communicate("\n", timeout=20)
        self.assertEqual(0, client.returncode, out + err)

    def test_a_client_killed_leaves_nothing_behind_within_a_second(self):
        for address in (self.server.unix, self.server.tcp):
            client, free_before, total = self.start("a", 300, address)
            self.assertEqual(512 << 20, total)
            client.kill()
            client.wait()
            self.assertTrue(wait_until(lambda: not self.server.workers(), 1.0), f"a worker is left after a second ({address})")
            again, free_after, _ = self.start("a", 300, address)
            self.assertEqual(free_before, free_after, "the ledger still charges the dead client")
            self.finish(again)
            wait_until(lambda: not self.server.workers(), 2.0)

    def test_a_killed_worker_is_an_error_for_its_client_and_for_nobody_else(self):
        first, _, _ = self.start("a", 10)
        # At its start the server asks one for the devices, which then ends.
        self.assertTrue(wait_until(lambda: len(self.server.workers()) == 1, 10.0))
        doomed = self.server.workers()
        other, _, _ = self.start("b", 10)
        os.kill(doomed.pop(), signal.SIGKILL)
        start = time.monotonic()
        out = first.stdout.readline()
        self.assertLess(time.monotonic() - start, 2.0)
        self.assertTrue(out.startswith("failed CUDA_ERROR_"), out)
        self.assertEqual(3, first.wait(2))
        self.assertIsNone(other.poll(), "another session died too")
        self.finish(other)
        third, _, _ = self.start("a", 10)
        self.finish(third)

    def test_a_killed_server_is_an_error_not_a_hang(self):
        client, _, _ = self.start("a", 10)
        workers = self.server.workers()
        self.server.process.kill()
        out = client.stdout.readline()
        self.assertTrue(out.startswith("failed CUDA_ERROR_"), out)
        self.assertEqual(3, client.wait(5))
        alive = lambda: [pid for pid in workers if os.path.exists(f"/proc/{pid}") and
                         open(f"/proc/{pid}/stat", encoding="utf-8").read().rsplit(")", 1)[1].split()[0] != "Z"]
        self.assertTrue(wait_until(lambda: not alive(), 2.0), "the workers outlive their server")

    def test_garbage_on_a_socket_closes_that_connection_only(self):
        client, _, _ = self.start("a", 10)
        host, port = self.server.tcp.rsplit(":", 1)
        samples = [b"GET / HTTP/1.1\r\n\r\n", b"\0" * 64, b"SLCE\xff\xff\xff\xff" + b"x" * 100, os.urandom(4096),
                   b"SLCE\x10\0\0\0" + b"\xff" * 16]
        for sample in samples:
            for family, address in ((socket.AF_UNIX, self.server.unix[5:]), (socket.AF_INET, (host, int(port)))):
                with socket.socket(family, socket.SOCK_STREAM) as s:
                    s.settimeout(5)
                    s.connect(address)
                    try:
                        s.sendall(sample)
                        while s.recv(4096):
                            pass
                    except ConnectionError:
                        pass  # closed by reset is closed
        self.assertIsNone(client.poll(), "a session died of somebody else's garbage")
        self.finish(client)

    def test_a_client_with_a_strange_name_cannot_hurt_the_server(self):
        def field(tag, data):
            return struct.pack("<HHI", tag, 0, len(data)) + data
        body = struct.pack("<HH", 1, 0) + field(1, struct.pack("<I", 1)) + field(4, b"a\xff\n\0") + field(5, b"\xfe" * 100) + field(9, b"\xff\xfe")
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(5)
            s.connect(self.server.unix[5:])
            s.sendall(b"SLCE" + struct.pack("<I", 8 + len(body)) + body)
            while s.recv(4096):
                pass
        client, _, _ = self.start("a", 10)
        self.finish(client)

    def test_silent_connections_do_not_stop_the_server(self):
        host, port = self.server.tcp.rsplit(":", 1)
        silent = [socket.create_connection((host, int(port))) for _ in range(100)]
        client, _, _ = self.start("b", 10)
        self.finish(client)
        for s in silent:
            s.close()


if __name__ == "__main__":
    unittest.main(verbosity=2)
