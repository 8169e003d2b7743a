#!/usr/bin/python3
"""A lost server is an error and one line, whatever the program was doing: never a hang, never a second line. And what is only
slow or stopped for a while loses nothing. The real sluiced, worker and shim; `calls` makes the calls."""
import os
import signal
import subprocess
import sys
import time
import unittest

from cable import FAR_SIDE, HOST, CableCase, plug
from harness import BUILD, SOFTGPU, Server, clean_environment, wait_until

CALLS = os.environ["SLUICE_CALLS"]
RAW_CLIENT = os.environ["SLUICE_RAW_CLIENT"]
# In the middle of what: the calls that wait, those that send much, and those that do not wait at all.
WAITING = ("sync", "copy-out", "query")
SCENARIOS = (*WAITING, "copy-in", "copy-async", "launches", "graph", "host-function", "callback", "threads")
QUICK = {"SLUICE_HEARTBEAT_MS": "100", "SLUICE_HEARTBEAT_TIMEOUT_MS": "2000"}
PATIENT = {"SLUICE_HEARTBEAT_MS": "100", "SLUICE_HEARTBEAT_TIMEOUT_MS": "60000"}


class Case(unittest.TestCase):
    def serve(self, **options):
        server = Server(**options)
        self.addCleanup(server.close)
        return server

    def gets_an_error_and_one_line(self, client, *words):
        """Never a hang (communicate() has a time), the same error for every call, its own exit status."""
        try:
            out, err = client.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self.fail(f"it hangs: {self.stacks_of(client)}")
        self.assertEqual(3, client.returncode, out + err)
        self.assertRegex(out, r"^failed CUDA_ERROR_DEVICE_UNAVAILABLE .*\nagain same\n$")
        self.assertEqual(1, err.count("\n"), err)
        self.assertIn("The session with the server is lost", err)
        for word in words:
            self.assertIn(word, err)

    @staticmethod
    def stacks_of(client):
        threads = f"/proc/{client.pid}/task"
        wchan = lambda task: open(f"{threads}/{task}/wchan", encoding="utf-8").read()
        return {task: wchan(task) for task in os.listdir(threads)}

    def goes_on(self, client):
        out, err = client.communicate("\n", timeout=120)
        self.assertEqual((0, "done\n", ""), (client.returncode, out, err))

    def stay_silent(self, server, client, ms):
        """Until the server has heard nothing new of this session for so long."""
        self.assertTrue(wait_until(lambda: server.session_of(client)["idle_ms"] >= ms), server.log())


class KilledServer(Case):
    def lose(self, scenario, transport):
        server = self.serve(server="prestart_workers = 0")
        client = server.start_client(CALLS, scenario, server=getattr(server, transport))
        server.kill()
        self.gets_an_error_and_one_line(client)


def killed_in(scenario, transport):
    return lambda self: self.lose(scenario, transport)


for name in SCENARIOS:
    for way in ("unix", "tcp"):
        setattr(KilledServer, f"test_in_{name.replace('-', '_')}_over_{way}", killed_in(name, way))


class KilledIdle(Case):
    def test_a_program_that_makes_no_calls_learns_of_it_at_its_next(self):
        server = self.serve()
        client = server.start_client(CALLS, "idle")
        server.kill()
        client.stdin.write("\n")
        client.stdin.flush()
        self.gets_an_error_and_one_line(client)


class StoppedWorker(Case):
    def stop_worker(self, server, client):
        worker = server.session_of(client)["worker_pid"]
        os.kill(worker, signal.SIGSTOP)
        return worker

    def lose(self, scenario, env=None):
        server = self.serve()
        client = server.start_client(CALLS, scenario, env={**QUICK, **(env or {})})
        self.stop_worker(server, client)
        self.gets_an_error_and_one_line(client, "worker has been silent for")
        self.assertTrue(wait_until(lambda: server.ask("ps") == []), "a stopped worker keeps its session")

    def test_a_waiting_call_returns_in_time(self):
        for scenario in WAITING:
            with self.subTest(scenario):
                self.lose(scenario)

    def test_a_call_that_cannot_send_returns_in_time(self):
        for scenario in ("copy-in", "launches"):
            with self.subTest(scenario):
                self.lose(scenario)

    def test_threads_that_all_wait_return_in_time(self):
        self.lose("threads")

    def test_a_call_that_cannot_send_returns_in_time_without_batching(self):
        self.lose("launches", {"SLUICE_DISABLE": "batching"})

    def test_a_session_that_is_given_up_ends_although_its_program_lives(self):
        server = self.serve()
        client = server.start_client(CALLS, "host-function", env=QUICK)
        self.stop_worker(server, client)
        # Its host function still runs; only the call that waited for it has returned.
        self.assertIn("failed", client.stdout.readline())
        self.assertTrue(wait_until(lambda: server.ask("ps") == []), "it keeps its session")

    def test_one_that_goes_on_in_time_loses_nothing(self):
        server = self.serve()
        for scenario in (*WAITING, "copy-in", "launches"):
            with self.subTest(scenario):
                client = server.start_client(CALLS, scenario, env=PATIENT)
                worker = self.stop_worker(server, client)
                self.stay_silent(server, client, 1000)
                os.kill(worker, signal.SIGCONT)
                self.goes_on(client)


class StoppedClient(Case):
    def test_it_loses_nothing_however_long_it_was_stopped(self):
        server = self.serve()
        for scenario, address in (("sync", server.tcp), ("copy-in", server.unix), ("query", server.unix)):
            with self.subTest(scenario):
                client = server.start_client(CALLS, scenario, server=address, env={**QUICK, "SLUICE_HEARTBEAT_TIMEOUT_MS": "3000"})
                client.send_signal(signal.SIGSTOP)
                self.stay_silent(server, client, 4000)
                client.send_signal(signal.SIGCONT)
                self.goes_on(client)


class GoneClient(Case):
    """Three tries: the second is of the server's, not of a machine that does something else."""

    def is_gone_within_a_second(self, make_client, end):
        server = self.serve()
        times = []
        for _ in range(3):
            client = make_client(server)
            self.assertIsNotNone(server.session_of(client))
            start = time.monotonic()
            end(client)
            self.assertTrue(wait_until(lambda: server.ask("ps") == []), server.log())
            times.append(time.monotonic() - start)
            self.assertEqual(0, server.ask("tenant", "show", "a")["used_bytes"])
            if times[-1] < 1:
                return
        self.fail(f"gone after {times} seconds")

    def test_killed_over_a_unix_socket(self):
        self.is_gone_within_a_second(lambda server: server.hold(100), lambda client: client.kill())

    def test_killed_over_tcp_in_a_copy(self):
        self.is_gone_within_a_second(lambda server: server.start_client(CALLS, "copy-in", server=server.tcp), lambda client: client.kill())

    def test_killed_under_an_endless_kernel(self):
        self.is_gone_within_a_second(lambda server: server.start_client(CALLS, "endless-destroy"), lambda client: client.kill())

    def test_reset(self):
        def reset(client):
            client.stdin.write("reset\n")
            client.stdin.flush()
        self.is_gone_within_a_second(
            lambda server: server.start_client(sys.executable, RAW_CLIENT, server.tcp, server.token, env={"SLUICE_BUILD": BUILD}), reset)


class EndlessKernel(Case):
    """Taking the context away, or the process, ends a kernel that never ends by itself."""

    def ends(self, client, status, last):
        out, err = client.communicate(timeout=60)
        self.assertEqual((status, last), (client.returncode, out), err)

    def directly(self, scenario):
        env = clean_environment({"LD_LIBRARY_PATH": os.path.dirname(SOFTGPU), "SLUICE_LOG": "error"})
        return subprocess.Popen([CALLS, scenario], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def test_on_the_driver(self):
        for scenario, status, text in (("endless-destroy", 0, "ready\ndone\n"), ("endless-reset", 0, "ready\ndone\n"),
                                       ("endless-exit", 7, "ready\n")):
            with self.subTest(scenario):
                self.ends(self.directly(scenario), status, text)

    def test_through_the_shim(self):
        server = self.serve()
        for scenario, status, text in (("endless-destroy", 0, "done\n"), ("endless-reset", 0, "done\n"), ("endless-exit", 7, "")):
            with self.subTest(scenario):
                self.ends(server.start_client(CALLS, scenario), status, text)
                self.assertTrue(wait_until(lambda: server.ask("ps") == []), "its session is left")


class BlackHole(CableCase, Case):
    """A cable that is pulled: nothing arrives, nothing is refused."""

    def test_the_client_gives_up_in_its_time_and_the_server_after_the_grace_time(self):
        server = self.serve(server='grace = "2s"\nallow_plaintext_network = true', listen=f'"{HOST}:0"')
        for scenario in ("sync", "copy-in", "copy-out", "launches", "threads"):
            with self.subTest(scenario):
                plug(True)
                client = server.start_client(CALLS, scenario, server=server.tcp, prefix=FAR_SIDE, env=QUICK)
                plug(False)
                self.gets_an_error_and_one_line(client)
                self.assertTrue(wait_until(lambda: server.ask("ps") == []), server.log())
                self.assertEqual(0, server.ask("tenant", "show", "a")["used_bytes"])

    def test_a_cable_that_is_back_in_time_loses_nothing(self):
        server = self.serve(server='grace = "2m"\nallow_plaintext_network = true', listen=f'"{HOST}:0"')
        for scenario in ("sync", "copy-in"):
            with self.subTest(scenario):
                client = server.start_client(CALLS, scenario, server=server.tcp, prefix=FAR_SIDE, env=PATIENT)
                plug(False)
                self.stay_silent(server, client, 1000)
                plug(True)
                self.goes_on(client)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
