#!/usr/bin/python3
"""What users and administrators meet: every error they can make has its message and exit status; the ways to start a program all work.
SLUICE_BUILD names the build folder, SLUICE_PROGRAM a small driver-API program, SLUICE_STATIC one with a static CUDA runtime."""
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import unittest

BUILD = os.environ["SLUICE_BUILD"]
PROGRAM = os.environ["SLUICE_PROGRAM"]
STATIC = os.environ.get("SLUICE_STATIC", "")
SLUICE = f"{BUILD}/bin/sluice"
SOFTGPU = f"{BUILD}/lib/softgpu/libcuda.so.1"


def run(*command, env=None):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("SLUICE_")}
    return subprocess.run(command, env={**clean, **(env or {})}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=60, check=False)


class ServerCase(unittest.TestCase):
    """One sluiced with tenant "a" for the whole class."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="sluice-tools.")
        cls.token = cls.write("token", "the-right-token\n")
        cls.config = cls.write("sluiced.toml", f"""
[server]
driver = "{SOFTGPU}"
listen = ["unix:{cls.folder}/s", "127.0.0.1:0"]
[[tenant]]
name = "a"
memory_limit = "256MiB"
token_file = "{cls.token}"
""")
        read_end, write_end = os.pipe()
        cls.log = open(f"{cls.folder}/log", "w", encoding="utf-8")
        cls.server = subprocess.Popen([f"{BUILD}/bin/sluiced", "--config", cls.config, "--print-ready-fd", str(write_end)],
                                      pass_fds=[write_end], stderr=cls.log)
        os.close(write_end)
        with os.fdopen(read_end, encoding="utf-8") as ready:
            cls.unix, cls.tcp = ready.readline().split()[1:]

    @classmethod
    def tearDownClass(cls):
        cls.server.terminate()
        cls.server.wait(10)
        cls.log.close()
        shutil.rmtree(cls.folder, ignore_errors=True)

    @classmethod
    def write(cls, name, text):
        path = os.path.join(cls.folder, name)
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)
        os.chmod(path, 0o600)
        return path

    def refused(self, outcome, code, *words):
        self.assertEqual(code, outcome.returncode, outcome.stdout + outcome.stderr)
        for word in words:
            self.assertIn(word, outcome.stderr)


class Running(ServerCase):
    def test_runs_a_program_on_a_named_server(self):
        for address in (self.unix, self.tcp):
            out = run(SLUICE, "run", "--server", address, "--tenant", "a", "--token-file", self.token, "--", PROGRAM)
            self.assertEqual(0, out.returncode, out.stderr)
            self.assertIn("sums correct", out.stdout)

    def test_takes_server_tenant_and_token_from_the_environment(self):
        env = {"SLUICE_SERVER": self.unix, "SLUICE_TENANT": "a", "SLUICE_TOKEN_FILE": self.token}
        out = run(SLUICE, "run", "--", PROGRAM, env=env)
        self.assertEqual(0, out.returncode, out.stderr)

    @unittest.skipUnless(STATIC, "no nvcc")
    def test_the_preloaded_library_alone_is_enough(self):
        env = {"SLUICE_SERVER": self.unix, "SLUICE_TENANT": "a", "SLUICE_TOKEN_FILE": self.token,
               "LD_PRELOAD": f"{BUILD}/lib/sluice/libsluice.so"}
        for program in (STATIC, STATIC + "_shared"):
            out = run(program, env=env)
            self.assertEqual(0, out.returncode, out.stderr)
            self.assertIn("sums correct", out.stdout)

    def test_a_program_linked_to_libcuda_needs_that_preloaded_too(self):
        # The loader looks for the program's own libcuda.so.1 before it loads what libsluice.so needs.
        env = {"SLUICE_SERVER": self.unix, "SLUICE_TENANT": "a", "SLUICE_TOKEN_FILE": self.token,
               "LD_PRELOAD": f"{BUILD}/lib/sluice/libcuda.so.1 {BUILD}/lib/sluice/libsluice.so"}
        out = run(PROGRAM, env=env)
        self.assertEqual(0, out.returncode, out.stderr)

    def test_local_needs_no_server_and_passes_the_exit_status_on(self):
        self.assertIn("sums correct", run(SLUICE, "run", "--local", "--", PROGRAM).stdout)
        self.assertEqual(7, run(SLUICE, "run", "--local", "--", "/bin/sh", "-c", "exit 7").returncode)
        self.assertEqual(128 + 15, run(SLUICE, "run", "--local", "--", "/bin/sh", "-c", "kill -TERM $$").returncode)

    def test_local_reports_what_the_program_did(self):
        out = run(SLUICE, "run", "--local", "--stats", "--", PROGRAM)
        self.assertIn("round trips", out.stderr)
        self.assertIn("GPU busy", out.stderr)

    def test_leaves_other_programs_alone(self):
        out = run(SLUICE, "run", "--local", "--", "/bin/echo", "--local", "hello")
        self.assertEqual("--local hello\n", out.stdout)


class Mistakes(ServerCase):
    def client(self, *options):
        return run(SLUICE, "run", *options, "--", PROGRAM)

    def test_no_server_named(self):
        self.refused(self.client(), 2, "--local", "--server", "SLUICE_SERVER")

    def test_server_unreachable(self):
        self.refused(self.client("--server", f"unix:{self.folder}/nobody"), 3, "nobody", "start sluiced")
        self.refused(self.client("--server", "127.0.0.1:1"), 3, "127.0.0.1:1")

    def test_wrong_token(self):
        wrong = self.write("wrong", "not-the-token\n")
        self.refused(self.client("--server", self.unix, "--tenant", "a", "--token-file", wrong), 3, "wrong token", "\"a\"")

    def test_unknown_tenant(self):
        self.refused(self.client("--server", self.unix, "--tenant", "nobody", "--token-file", self.token), 3, "unknown tenant \"nobody\"")

    def test_missing_token_file(self):
        self.refused(self.client("--server", self.unix, "--tenant", "a", "--token-file", f"{self.folder}/none"), 3, "none")

    def test_version_mismatch_says_which_side_to_update(self):
        def field(tag, data):
            return struct.pack("<HHI", tag, 0, len(data)) + data
        body = struct.pack("<HH", 1, 0) + field(1, struct.pack("<I", 99)) + field(2, struct.pack("<Q", 1)) + field(3, struct.pack("<Q", 0)) + \
            field(4, b"a") + field(5, b"x") + field(6, struct.pack("<i", 13000)) + field(7, struct.pack("<i", 1)) + field(8, b"h") + field(9, b"p") + field(10, b"")
        frame = b"SLCE" + struct.pack("<I", 8 + len(body)) + body
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(self.unix[5:])
            s.settimeout(10)
            s.sendall(frame)
            answer = b""
            while piece := s.recv(4096):
                answer += piece
        self.assertIn(b"version mismatch", answer)
        self.assertIn(b"update the server", answer)

    def test_program_not_found_or_not_executable(self):
        self.refused(run(SLUICE, "run", "--local", "--", "no-such-program"), 127, "program not found: no-such-program")
        self.refused(run(SLUICE, "run", "--local", "--", self.write("data", "x")), 126, "not an executable file")

    def test_static_program(self):
        source = self.write("s.c", "int main(void){return 0;}")
        subprocess.run(["gcc", "-static", "-o", f"{self.folder}/static", source], check=True)
        self.refused(run(SLUICE, "run", "--local", "--", f"{self.folder}/static"), 4, "statically linked")

    @unittest.skipUnless(STATIC, "no nvcc")
    def test_stripped_static_runtime(self):
        stripped = f"{self.folder}/stripped"
        subprocess.run(["strip", "-o", stripped, STATIC], check=True)
        self.refused(run(SLUICE, "run", "--local", "--", stripped), 4, "stripped", "-cudart shared")

    def sluiced(self, config=None, *options):
        command = [f"{BUILD}/bin/sluiced", *options]
        if config is not None:
            command += ["--config", self.write("bad.toml", config)]
        return run(*command)

    def test_driver_path_without_libcuda(self):
        tenant = f'[server]\nlisten = ["unix:{self.folder}/x"]\n[[tenant]]\nname = "a"\ntoken_file = "{self.token}"\n'
        self.refused(self.sluiced(tenant, "--driver", self.folder), 2, "no libcuda.so.1", self.folder)
        # A library that is no driver is found when a worker loads it; the client is told.
        self.refused(self.sluiced(tenant, "--driver", f"{self.folder}/nothing"), 2, "nothing")

    def test_port_in_use(self):
        config = f'[server]\ndriver = "{SOFTGPU}"\nlisten = ["{self.tcp}"]\n[[tenant]]\nname = "a"\ntoken_file = "{self.token}"\n'
        self.refused(self.sluiced(config), 4, "address in use", self.tcp)
        self.refused(self.sluiced(config.replace(self.tcp, self.unix)), 4, "address in use")

    def test_config_typo_offers_the_nearest_name(self):
        config = f'[server]\nlisten = ["unix:{self.folder}/x"]\n[[tenant]]\nname = "a"\nmemory_limt = "1GiB"\ntoken_file = "{self.token}"\n'
        out = self.sluiced(config)
        self.refused(out, 2, "memory_limt", "did you mean \"memory_limit\"", ":5:")
        check = run(f"{BUILD}/bin/sluicectl", "config", "check", f"{self.folder}/bad.toml")
        self.refused(check, 2, "memory_limit")

    def test_network_listening_needs_a_decision(self):
        config = f'[server]\nlisten = ["0.0.0.0:0"]\n[[tenant]]\nname = "a"\ntoken_file = "{self.token}"\n'
        self.refused(self.sluiced(config), 2, "allow_plaintext_network")

    def test_a_good_config_is_accepted(self):
        out = run(f"{BUILD}/bin/sluicectl", "config", "check", self.config)
        self.assertEqual(0, out.returncode, out.stderr)

    def test_a_token_hash_is_as_good_as_its_file(self):
        line = run(f"{BUILD}/bin/sluicectl", "token", "hash", self.token).stdout
        config = f'[server]\nlisten = ["unix:{self.folder}/x"]\n[[tenant]]\nname = "a"\n{line}'
        self.assertEqual(0, run(f"{BUILD}/bin/sluicectl", "config", "check", self.write("hash.toml", config)).returncode)


if __name__ == "__main__":
    unittest.main(verbosity=2)
