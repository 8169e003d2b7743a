#!/usr/bin/python3
"""Other people's NVML programs on our library: python3-pynvml, gpustat, nvtop, nvidia-smi. Those of the system, or those that
fetch_clients.sh has put into SLUICE_BUILD/../nvml-clients; without a program its tests are skipped. What they showed goes into
SLUICE_BUILD/nvml-screens/."""
import json
import os
import re
import shutil
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../tools")]
import screen  # noqa: E402
from harness import BUILD, Server, clean_environment, wait_until  # noqa: E402

SLUICE = f"{BUILD}/bin/sluice"
FETCHED = os.path.join(os.path.dirname(BUILD), "nvml-clients", "root")
SCREENS = f"{BUILD}/nvml-screens"
PYTHON = "/usr/bin/python3"
MODULES = f"{FETCHED}/usr/lib/python3/dist-packages"
LIBRARIES = f"{FETCHED}/usr/lib/x86_64-linux-gnu"


def program(name, *places):
    for path in (*(f"{FETCHED}/{place}" for place in places), shutil.which(name) or ""):
        if os.access(path, os.X_OK):
            return path
    return None


def has_module(name):
    return subprocess.run([PYTHON, "-c", f"import {name}"], env=clean_environment({"PYTHONPATH": MODULES}), check=False,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


NVTOP = program("nvtop", "usr/bin/nvtop")
NVIDIA_SMI = program("nvidia-smi", "usr/lib/nvidia/current/nvidia-smi")
HAS_PYNVML, HAS_GPUSTAT = has_module("pynvml"), has_module("gpustat")


def missing(package):
    return f"{package} is not installed (contrib or non-free of Debian; tests/nvml/fetch_clients.sh fetches it)"


class ClientCase(unittest.TestCase):
    """A server whose tenant a has 256 MiB, of which a program holds some."""

    def setUp(self):
        self.server = Server()
        self.addCleanup(self.server.close)
        self.client = self.server.hold(40, "idle")
        self.used_mib = self.server.session_of(self.client)["memory_bytes"] >> 20

    def under_sluice(self, *command):
        return (SLUICE, "run", "--server", self.server.unix, "--tenant", "a", "--token-file", self.server.token, "--", *command)

    def environment(self):
        # behind ours: `sluice run` puts its folder before it
        return clean_environment({"PYTHONPATH": MODULES, "LD_LIBRARY_PATH": LIBRARIES, "HOME": self.server.folder})

    def run_client(self, *command):
        return subprocess.run(self.under_sluice(*command), env=self.environment(), stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=120, check=False)

    def keep(self, name, text):
        os.makedirs(SCREENS, exist_ok=True)
        with open(f"{SCREENS}/{name}.txt", "w", encoding="utf-8") as out:
            out.write(text)

    def check_no_session(self):
        self.assertEqual([self.client.pid], [one["client_pid"] for one in self.server.ask("ps")])


@unittest.skipUnless(HAS_PYNVML, missing("python3-pynvml"))
class Pynvml(ClientCase):
    def test_its_objects_hold_the_slice(self):
        script = """
import json, pynvml as n
n.nvmlInit()
h = n.nvmlDeviceGetHandleByIndex(0)
m, u, p = n.nvmlDeviceGetMemoryInfo(h), n.nvmlDeviceGetUtilizationRates(h), n.nvmlDeviceGetPciInfo(h)
unsupported = 0
for call in (n.nvmlDeviceGetFanSpeed, n.nvmlDeviceGetPowerUsage, n.nvmlDeviceGetSerial):
    try:
        call(h)
    except n.NVMLError_NotSupported:
        unsupported += 1
print(json.dumps([n.nvmlDeviceGetCount(), m.total, m.used + m.free, m.used, u.gpu <= 100, unsupported,
                  [[one.pid, one.usedGpuMemory] for one in n.nvmlDeviceGetComputeRunningProcesses(h)],
                  n.nvmlDeviceGetHandleByUUID(n.nvmlDeviceGetUUID(h)) is not None, n.nvmlSystemGetCudaDriverVersion()]))
n.nvmlShutdown()
"""
        out = self.run_client(PYTHON, "-c", script)
        self.assertEqual(0, out.returncode, out.stderr)
        count, total, both, used, is_percent, unsupported, processes, has_handle, version = json.loads(out.stdout)
        self.assertEqual((1, 256 << 20, 256 << 20, True, 3, True), (count, total, both, is_percent, unsupported, has_handle))
        self.assertEqual([[self.client.pid, used]], processes)
        self.assertGreaterEqual(version, 11000)
        self.check_no_session()


@unittest.skipUnless(HAS_GPUSTAT, missing("gpustat"))
class Gpustat(ClientCase):
    def test_its_json_holds_the_slice(self):
        out = self.run_client(PYTHON, "-m", "gpustat", "--json")
        self.assertEqual(0, out.returncode, out.stderr)
        gpu, = json.loads(out.stdout)["gpus"]
        self.assertEqual((0, 256, self.used_mib), (gpu["index"], gpu["memory.total"], gpu["memory.used"]))
        self.assertEqual([(self.client.pid, self.used_mib)], [(one["pid"], one["gpu_memory_usage"]) for one in gpu["processes"]])
        self.keep("gpustat-json", out.stdout)
        self.check_no_session()

    def test_its_screen_shows_the_slice(self):
        out = self.run_client(PYTHON, "-m", "gpustat", "--no-color", "--show-pid", "--show-cmd")
        self.assertEqual(0, out.returncode, out.stderr)
        self.assertRegex(out.stdout, rf"{self.used_mib} / +256 MB")
        self.assertIn(str(self.client.pid), out.stdout)
        self.keep("gpustat", out.stdout)


@unittest.skipUnless(NVTOP, missing("nvtop"))
class Nvtop(ClientCase):
    def test_its_screen_shows_the_slice_and_its_process(self):
        pid = str(self.client.pid)
        text, status = screen.watch(self.under_sluice(NVTOP), lambda seen: pid in seen and "MiB" in seen, self.environment())
        self.keep("nvtop", text)
        self.assertEqual(0, status, text)
        self.assertIn("Device 0", text)
        self.assertRegex(text, rf"{pid}.*{self.used_mib}MiB")
        self.check_no_session()


@unittest.skipUnless(NVIDIA_SMI, missing("nvidia-smi"))
class NvidiaSmi(ClientCase):
    """NVIDIA's own program asks for a private table of functions first, which is always refused (docs/nvml.md), and stops there:
    that, and nothing else, is what keeps it from the slice. One that needs no such table must show the slice."""

    def test_it_shows_the_slice_or_stops_at_the_private_table(self):
        for name, words in (("nvidia-smi-L", ["-L"]), ("nvidia-smi", [])):
            out = self.run_client("env", "SLUICE_LOG=info", NVIDIA_SMI, *words)
            self.keep(name, f"exit status {out.returncode}\n{out.stdout}{out.stderr}")
            self.assertGreaterEqual(out.returncode, 0, "it died of a signal")
            if out.returncode == 0:
                self.assertIn("GPU-" if words else f"{self.used_mib}MiB / ", out.stdout)
                continue
            self.assertEqual(["nvmlInternalGetExportTable"], re.findall(r"(nvml\w+) is not supported", out.stderr), out.stderr)
        self.check_no_session()


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    if result.testsRun == len(result.skipped) > 0:
        print("all skipped: " + "; ".join(sorted({why for _, why in result.skipped})))
    sys.exit(0 if result.wasSuccessful() else 1)
