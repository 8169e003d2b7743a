#!/usr/bin/python3
"""sluice-perf says the same things of every transport, for machines as for people. No figure's size is looked at."""
import json
import os
import subprocess
import unittest

PERF = f"{os.environ['SLUICE_BUILD']}/bin/sluice-perf"
FIGURE = {"name", "value", "unit", "raw_name", "raw", "ratio"}


def lines(*words):
    out = subprocess.run([PERF, "-o", "json", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                         timeout=240, check=False)
    if out.returncode != 0:
        raise AssertionError(out.stderr)
    return [json.loads(line) for line in out.stdout.splitlines()]


class Perf(unittest.TestCase):
    def check(self, found, names):
        self.assertEqual({"transport", "load_before", "load_after", "figures"}, set(found))
        for figure in found["figures"]:
            self.assertEqual(FIGURE, set(figure))
            self.assertGreater(figure["value"], 0, figure)
            self.assertGreater(figure["raw"], 0, figure)
            self.assertTrue(figure["raw_name"])
        self.assertLessEqual(names, {figure["name"] for figure in found["figures"]})

    def test_every_transport_has_its_calls_and_copies(self):
        transports = ["shm", "unix", "tcp", "tcp-tls"]
        all_ = lines("--transport", ",".join(transports), "--rounds", "50", "--launches", "640", "--copy-kib", "64", "--repeats", "1")
        self.assertEqual(transports, [one["transport"] for one in all_])
        for one in all_:
            self.check(one, {"synchronize p50", "synchronize p99", "launch + synchronize p50", "launches posted and done", "launch in the client",
                             "host to device, 64 KiB", "device to host, 64 KiB"})

    def test_every_channel_has_its_round_trips_commands_and_bulk(self):
        kinds = ["loop", "shm", "unix", "tcp", "tcp-tls"]
        all_ = lines("channels", "--kind", ",".join(kinds), "--rounds", "50", "--commands", "640", "--bulk-mib", "1", "--repeats", "1")
        self.assertEqual([f"channel {kind}" for kind in kinds], [one["transport"] for one in all_])
        for one in all_:
            self.check(one, {"round trip p50", "round trip p99", "commands, batched", "bulk"})
        limits = {(one["transport"], figure["raw_name"]) for one in all_ for figure in one["figures"]}
        self.assertLessEqual({("channel shm", "bare ring"), ("channel tcp", "tcp socket"), ("channel tcp-tls", "AES-256-GCM, one core")}, limits)


if __name__ == "__main__":
    unittest.main(verbosity=2)
