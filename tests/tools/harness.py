"""A sluiced on the software GPU for one test, its sluicectl, and clients that hold a session. SLUICE_BUILD names the build
folder, SLUICE_HOLD the program that holds memory until it reads a line."""
import hashlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

BUILD = os.environ["SLUICE_BUILD"]
HOLD = os.environ["SLUICE_HOLD"]
os.environ["PATH"] += ":/usr/sbin:/sbin"  # ip
SOFTGPU = f"{BUILD}/lib/softgpu/libcuda.so.1"


def wait_until(condition, seconds=30):
    """True as soon as condition() holds, False when the time is over."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return condition()


def clean_environment(extra=None):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("SLUICE_")}
    for name in ("XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"):
        clean.pop(name, None)
    return {**clean, "HOME": "/nonexistent", **(extra or {})}


def run(*command, env=None):
    return subprocess.run(command, env=clean_environment(env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=60, check=False)


CABLE_TENANT = "without-token"
CABLE_TENANT_TEXT = f"""
[[tenant]]
name = "{CABLE_TENANT}"
memory_limit = "256MiB"
token_sha256 = "{hashlib.sha256(b"").hexdigest()}"
"""


class Server:
    """sluiced with tenant "a" of 256 MiB."""

    def __init__(self, server="", rest="", listen='"127.0.0.1:0"'):
        self.folder = tempfile.mkdtemp(prefix="sluice-ctl.")
        self.control = f"{self.folder}/s.control"
        self.token = self.write("token", "the-right-token\n")
        self.config = self.write("sluiced.toml", self.config_text(server, rest, listen))
        self.process = None
        self.clients = []
        self.start()

    def config_text(self, server="", rest="", listen='"127.0.0.1:0"'):
        return f"""
[server]
driver = "{SOFTGPU}"
listen = ["unix:{self.folder}/s", {listen}]
state_dir = "{self.folder}/state"
stats_file = "{self.folder}/stats"
{server}
[[tenant]]
name = "a"
memory_limit = "256MiB"
token_file = "{self.token}"
{"" if "127.0.0.1" in listen else CABLE_TENANT_TEXT}
{rest}
"""

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)
        os.chmod(path, 0o600)
        return path

    def start(self):
        read_end, write_end = os.pipe()
        with open(f"{self.folder}/log", "a", encoding="utf-8") as log:
            self.process = subprocess.Popen([f"{BUILD}/bin/sluiced", "--config", self.config, "--print-ready-fd", str(write_end)],
                                            pass_fds=[write_end], stderr=log, env=clean_environment())
        os.close(write_end)
        with os.fdopen(read_end, encoding="utf-8") as ready:
            words = ready.readline().split()
        if not words:
            raise RuntimeError("sluiced did not start: " + self.log())
        self.unix, self.tcp = words[1:3]

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)

    def kill(self):
        """As a power failure would: the server and all its workers at once, without a word."""
        workers = [session["worker_pid"] for session in self.ask("ps")]
        for pid in [self.process.pid, *workers]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # its server's end was faster
        self.process.wait()

    def close(self):
        for client in self.clients:
            if client.poll() is None:
                client.kill()
            client.communicate()
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def log(self):
        with open(f"{self.folder}/log", encoding="utf-8") as text:
            return text.read()

    def ctl(self, *words):
        return run(f"{BUILD}/bin/sluicectl", "--socket", self.control, *words)

    def ask(self, *words):
        out = self.ctl("-o", "json", *words)
        if out.returncode != 0:
            raise AssertionError(f"{words}: {out.stderr}")
        return json.loads(out.stdout)

    def start_client(self, *command, server=None, prefix=(), env=None):
        """A program with the shim, once it has said "ready". Over a cable it is the tenant without a token: no client
        sends one in the clear."""
        is_far = server is not None and server == self.tcp and not server.startswith("127.")
        who = ({"SLUICE_TENANT": CABLE_TENANT, "SLUICE_TLS": "off"} if is_far else
               {"SLUICE_TENANT": "a", "SLUICE_TOKEN_FILE": self.token})
        env = clean_environment({"SLUICE_SERVER": server or self.unix, **who,
                                 "LD_LIBRARY_PATH": f"{BUILD}/lib/sluice", "SLUICE_LOG": "warn", **(env or {})})
        client = subprocess.Popen([*prefix, *command], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True)
        self.clients.append(client)
        answer = client.stdout.readline()
        if not answer.startswith("ready"):
            raise AssertionError(f"the client did not start: {answer} {client.communicate()[1]}")
        return client

    def hold(self, mib=10, *words, **options):
        """A client that has a session and `mib` of memory until it is sent a line."""
        return self.start_client(HOLD, str(mib), *words, **options)

    def session_of(self, client):
        return next((s for s in self.ask("ps") if s["client_pid"] == client.pid), None)
