#!/usr/bin/python3
"""A real Prometheus (SLUICE_PROMETHEUS is the folder of prometheus and promtool) on the endpoint of a real server."""
import json
import os
import subprocess
import unittest
import urllib.parse
import urllib.request

from harness import BUILD, Server, run, wait_until
from metrics_test import free_port

PROGRAMS = os.environ["SLUICE_PROMETHEUS"]
PROGRAM = os.environ["SLUICE_PROGRAM"]


class Prometheus(unittest.TestCase):
    def setUp(self):
        self.endpoint, self.port = free_port(), free_port()
        self.server = Server(server=f'[metrics]\nlisten = "127.0.0.1:{self.endpoint}"')
        self.addCleanup(self.server.close)

    def start(self):
        config = self.server.write("prometheus.yml", f"""
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: sluice
    static_configs: [{{targets: ["127.0.0.1:{self.endpoint}"]}}]
""")
        with open(f"{self.server.folder}/prometheus.log", "w", encoding="utf-8") as log:
            process = subprocess.Popen([f"{PROGRAMS}/prometheus", f"--config.file={config}", f"--storage.tsdb.path={self.server.folder}/data",
                                        f"--web.listen-address=127.0.0.1:{self.port}"], stderr=log)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)

    def ask(self, query):
        """[(labels, value)] of an instant query; nothing while it does not answer."""
        url = f"http://127.0.0.1:{self.port}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
        try:
            with urllib.request.urlopen(url, timeout=20) as answer:
                found = json.load(answer)["data"]["result"]
        except OSError:
            return []
        return [(one["metric"], float(one["value"][1])) for one in found]

    def value(self, query):
        found = self.ask(query)
        return found[0][1] if found else None

    def test_what_a_program_used_arrives(self):
        self.start()
        self.assertTrue(wait_until(lambda: self.value("up") == 1, 60), "it does not scrape")
        self.assertEqual(1, self.value("sluice_enforcement_ok"))
        done = run(f"{BUILD}/bin/sluice", "run", "--server", self.server.unix, "--tenant", "a", "--token-file", self.server.token, "--", PROGRAM)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertTrue(wait_until(lambda: (self.value('sum(sluice_gpu_seconds_total{tenant="a"})') or 0) > 0, 60))
        self.assertEqual(256 << 20, self.value('sluice_mem_limit_bytes{tenant="a"}'))
        known = {labels["__name__"] for labels, _ in self.ask('{job="sluice"}') if labels["__name__"].startswith("sluice_")}
        self.assertGreater(len(known), 10)
        print(f"prometheus: scraped {len(known)} metrics of ours")

    def test_its_own_tool_finds_nothing_to_complain_about(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.endpoint}/metrics", timeout=20) as answer:
            text = answer.read()
        checked = subprocess.run([f"{PROGRAMS}/promtool", "check", "metrics"], input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                 check=False)
        complaints = [line for line in checked.stdout.decode().splitlines() if "sluice_" in line]
        self.assertEqual([], complaints)


if __name__ == "__main__":
    unittest.main(verbosity=2)
