"""softgpu's own account, and what a server says about memory by kind. Every test process has a software GPU of its own: other
tests' programs are not in its account."""
import os
import subprocess

os.environ["SOFTGPU_ACCOUNT"] = f"ledger{os.getpid()}"

from harness import BUILD, clean_environment  # noqa: E402 (takes the environment as it is now)

TRUTH = os.environ["SLUICE_LEDGER_TRUTH"]
MIB = 1 << 20


def truth(*pids):
    """What softgpu counts: on the device, and of each process."""
    out = subprocess.run([TRUTH, *map(str, pids)], env=clean_environment({"LD_LIBRARY_PATH": f"{BUILD}/lib/softgpu"}),
                         stdout=subprocess.PIPE, text=True, timeout=60, check=True)
    device, *processes = map(int, out.stdout.split())
    return device, dict(zip(pids, processes))


def device_kinds(kinds):
    """Without what is of no device."""
    return {kind: size for kind, size in kinds.items() if kind not in ("host_pinned", "import")}


def held(holder):
    """Of a session or tenant, on the device: charged or not."""
    return sum(device_kinds(holder["memory_by_kind"]).values())


def nonzero(kinds):
    return {kind: size for kind, size in device_kinds(kinds).items() if size}


def remove_account():
    """softgpu leaves the file for whoever comes next; nobody does."""
    for name in os.listdir("/dev/shm"):
        if f"-ledger{os.getpid()}-" in name:
            os.unlink(f"/dev/shm/{name}")
