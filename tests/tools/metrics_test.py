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
        """Of the first sample that has these labels, and perhaps others."""
        for text, value in re.findall(rf"^{metric}(?:{{(.*)}})? ([-+.0-9e]+)$", self.fetch(), re.M):
            if labels.items() <= dict(re.findall(r'(\w+)="([^"]*)"', text)).items():
                return float(value)
        return self.fail(f"there is no {metric} with {labels}")

    def test_what_a_program_used_is_counted(self):
        self.assertEqual(1, self.value("sluice_enforcement_ok"))
        self.assertTrue(wait_until(lambda: "sluice_gpu_seconds_total{" in self.fetch()))  # the devices are known
        self.assertEqual(0, self.value("sluice_gpu_seconds_total", tenant="a"))
        done = run(f"{BUILD}/bin/sluice", "run", "--server", self.server.unix, "--tenant", "a", "--token-file", self.server.token, "--", PROGRAM)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertTrue(wait_until(lambda: self.value("sluice_gpu_seconds_total", tenant="a") > 0))
        self.assertTrue(wait_until(lambda: self.value("sluice_sessions", tenant="a") == 0))
        self.assertEqual(256 << 20, self.value("sluice_mem_limit_bytes", tenant="a"))
        self.assertEqual(0, self.value("sluice_mem_bytes", tenant="a", kind="data"))
        self.assertGreater(self.value("sluice_device_mem_total_bytes", gpu="0", name="Sluice softgpu"), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
