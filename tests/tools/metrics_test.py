#!/usr/bin/python3
"""The endpoint for Prometheus, on a real server with a real program."""
import os
import re
import socket
import unittest
import urllib.request

from harness import BUILD, Server, run, wait_until

PROGRAM = os.environ["SLUICE_PROGRAM"]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Metrics(unittest.TestCase):
    def setUp(self):
        self.port = free_port()
        self.server = Server(server=f'[metrics]\nlisten = "127.0.0.1:{self.port}"')
        self.addCleanup(self.server.close)

    def fetch(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=20) as answer:
            return answer.read().decode()

    def value(self, metric, **labels):
        wanted = ",".join(f'{key}="{text}"' for key, text in labels.items())
        found = re.search(rf"^{metric}{re.escape('{' + wanted + '}') if wanted else ''} ([-+.0-9e]+)$", self.fetch(), re.M)
        self.assertIsNotNone(found, metric)
        return float(found.group(1))

    def test_what_a_program_used_is_counted(self):
        self.assertEqual(1, self.value("sluice_enforcement_ok"))
        self.assertEqual(0, self.value("sluice_gpu_seconds_total", tenant="a"))
        done = run(f"{BUILD}/bin/sluice", "run", "--server", self.server.unix, "--tenant", "a", "--token-file", self.server.token, "--", PROGRAM)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertTrue(wait_until(lambda: self.value("sluice_gpu_seconds_total", tenant="a") > 0))
        self.assertTrue(wait_until(lambda: self.value("sluice_sessions", tenant="a") == 0))
        self.assertEqual(256 << 20, self.value("sluice_mem_limit_bytes", tenant="a"))
        self.assertEqual(0, self.value("sluice_mem_bytes", tenant="a"))
        self.assertGreater(self.value("sluice_device_mem_total_bytes", gpu="0", name="Sluice softgpu"), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
