#!/usr/bin/python3
"""TLS as users and administrators meet it: certificates by sluicectl, programs through the shim, every refusal and its message.
SLUICE_OWN_OPENSSL is a CUDA program with an OpenSSL of its own; the rest is as in tests/tools/harness.py."""
import json
import os
import socket
import ssl
import stat
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tools"))
from harness import BUILD, Server, clean_environment, run, wait_until  # noqa: E402
from tls_server import CTL, TlsServer  # noqa: E402

PROGRAM = os.environ["SLUICE_PROGRAM"]
OWN_OPENSSL = os.environ["SLUICE_OWN_OPENSSL"]
SLUICE = f"{BUILD}/bin/sluice"
LIBRARY = f"{BUILD}/lib/sluice/libsluice_tls.so"


class ProgramServer(TlsServer):
    def program(self, *options, env=None, server=None):
        return run(SLUICE, "run", "--server", server or self.tcp, *options, "--", PROGRAM, env=env)

    def as_a(self, *options, **rest):
        return self.program("--tenant", "a", "--token-file", self.token, *options, **rest)


class TlsCase(unittest.TestCase):
    tls = server_text = rest = ""

    def setUp(self):
        self.server = ProgramServer(self.tls, self.server_text, self.rest)
        self.addCleanup(self.server.close)

    def works(self, outcome):
        self.assertEqual(0, outcome.returncode, outcome.stdout + outcome.stderr + self.server.log())
        self.assertIn("sums correct", outcome.stdout)

    def refused(self, outcome, *words):
        self.assertEqual(3, outcome.returncode, outcome.stdout + outcome.stderr)
        for word in words:
            self.assertIn(word, outcome.stderr)


class Encrypted(TlsCase):
    def test_statistics_name_the_transport_as_encrypted(self):
        stats = f"{self.server.folder}/stats.json"
        self.works(self.server.as_a("--tls-ca", self.server.ca, env={"SLUICE_STATS": stats}))
        self.assertEqual("tcp+tls", json.loads(text_of(stats))["transport"])

    def test_a_program_runs_encrypted_and_the_server_says_so(self):
        self.works(self.server.as_a("--tls-ca", self.server.ca))
        self.assertIn("encrypted=true", self.server.log())

    def test_the_shim_alone_takes_its_settings_from_the_environment(self):
        client = self.server.hold(10, server=self.server.tcp, env={"SLUICE_TLS_CA": self.server.ca})
        self.assertEqual("a", self.server.session_of(client)["tenant"])
        self.assertIn("encrypted=true", self.server.log())
        with open(f"/proc/{client.pid}/maps", encoding="utf-8") as maps:
            self.assertIn(LIBRARY, maps.read())

    def test_without_encryption_the_library_is_not_loaded(self):
        client = self.server.hold(10, server=self.server.tcp)
        with open(f"/proc/{client.pid}/maps", encoding="utf-8") as maps:
            self.assertNotIn("libsluice_tls", maps.read())

    def test_nothing_of_a_session_crosses_in_the_clear(self):
        """A relay between program and server sees neither the token nor what is copied."""
        seen = Relay(self.server.tcp)
        self.addCleanup(seen.close)
        self.works(self.server.as_a("--tls-ca", self.server.ca, server=seen.address))
        self.assertGreater(len(seen.bytes), 10_000)
        for secret in (b"the-right-token", b"vector_add", b".version"):
            self.assertNotIn(secret, seen.bytes)
        plain = Relay(self.server.tcp)
        self.addCleanup(plain.close)
        self.works(self.server.as_a(server=plain.address))
        for secret in (b"the-right-token", b".version"):
            self.assertIn(secret, plain.bytes, "the relay does see what is not encrypted")

    def test_a_wrong_ca_a_wrong_name_and_a_wrong_token_are_told(self):
        other = f"{self.server.folder}/other"
        run(CTL, "cert", "init", other)
        self.refused(self.server.as_a("--tls-ca", f"{other}/ca.crt"), "no CA in", "SLUICE_TLS_CA")
        run(CTL, "cert", "init", self.server.folder, "--host", "gpu.example", "--force")
        self.assertEqual(0, self.server.ctl("config", "reload").returncode)
        self.refused(self.server.as_a("--tls-ca", self.server.ca), 'not for "127.0.0.1" but for gpu.example')
        run(CTL, "cert", "init", self.server.folder, "--host", "127.0.0.1", "--force")
        self.server.ctl("config", "reload")
        wrong = self.server.write("wrong", "another-token\n")
        self.refused(self.server.program("--tenant", "a", "--token-file", wrong, "--tls-ca", self.server.ca), "wrong token")
        self.server.ctl("token", "revoke", "a")
        self.refused(self.server.as_a("--tls-ca", self.server.ca), "wrong token")

    def test_a_client_that_is_killed_ends_its_session_at_once(self):
        client = self.server.hold(10, server=self.server.tcp, env={"SLUICE_TLS_CA": self.server.ca})
        client.kill()
        self.assertTrue(wait_until(lambda: self.server.ask("ps") == [], 5))

    def test_a_program_and_the_shim_each_keep_their_own_openssl(self):
        own = self.server.write("openssl.cnf", "openssl_conf = all\n[all]\nssl_conf = tls\n[tls]\nsystem_default = old\n"
                                "[old]\nMaxProtocol = TLSv1.2\n")
        out = run(SLUICE, "run", "--server", self.server.tcp, "--tenant", "a", "--token-file", self.server.token, "--tls-ca",
                  self.server.ca, "--", "/usr/bin/env", f"OPENSSL_CONF={own}", OWN_OPENSSL)
        self.assertEqual((0, "both work\n"), (out.returncode, out.stdout), out.stderr)
        self.assertIn("encrypted=true", self.server.log())

    def test_the_library_exports_its_one_function_and_nothing_of_openssl(self):
        names = run("nm", "-D", "--defined-only", LIBRARY).stdout.split()[2::3]
        self.assertEqual(["SLUICE_TLS_1", "sluice_tls_library@@SLUICE_TLS_1"], sorted(names))

    def test_a_server_without_a_certificate_says_so(self):
        plain = Server()
        self.addCleanup(plain.close)
        out = run(SLUICE, "run", "--server", plain.tcp, "--tenant", "a", "--token-file", plain.token, "--tls", "on", "--tls-ca",
                  self.server.ca, "--", PROGRAM)
        self.refused(out, "certificate ([tls]")
        self.assertIn("for which this server has no certificate", plain.log())

    def test_older_tls_gets_nothing(self):
        host, port = self.server.tcp.rsplit(":", 1)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with socket.create_connection((host, int(port))) as raw, self.assertRaises(ssl.SSLError):
            context.wrap_socket(raw)


class ClientCertificates(TlsCase):
    tls = 'client_ca = "FOLDER/ca.crt"'
    rest = '[[tenant]]\nname = "certified"\n'

    def certificate(self, tenant):
        return ("--tls-ca", self.server.ca, "--tls-cert", f"{self.server.folder}/tenant-{tenant}.crt", "--tls-key",
                f"{self.server.folder}/tenant-{tenant}.key")

    def test_a_certificate_is_the_tenants_name_and_token(self):
        self.works(self.server.program(*self.certificate("certified")))
        self.assertIn("tenant=certified", self.server.log())
        self.works(self.server.as_a("--tls-ca", self.server.ca))
        self.refused(self.server.program("--tenant", "a", *self.certificate("certified")), "belongs to tenant")
        self.refused(self.server.program("--tenant", "certified", "--tls-ca", self.server.ca), "wrong token")


class RequiredCertificates(ClientCertificates):
    tls = ClientCertificates.tls + "\nrequire_client_certificate = true"

    def test_a_certificate_is_the_tenants_name_and_token(self):
        self.works(self.server.program(*self.certificate("a")))
        self.refused(self.server.as_a("--tls-ca", self.server.ca), "SLUICE_TLS_CERT")


class Required(TlsCase):
    server_text = "require_encryption = true"

    def test_plain_tcp_is_refused_with_what_to_set_and_a_unix_socket_is_not(self):
        self.refused(self.server.as_a(), "encrypted connections only", "SLUICE_TLS_CA")
        self.works(self.server.as_a(server=self.server.unix))
        self.works(self.server.as_a("--tls-ca", self.server.ca))

    def test_who_connects_is_in_the_log(self):
        self.works(self.server.as_a(server=self.server.unix))
        self.assertRegex(self.server.log(), rf"from=uid={os.getuid()},pid=\d+ encrypted=false")


class Making(unittest.TestCase):
    def setUp(self):
        self.server = TlsServer()
        self.addCleanup(self.server.close)
        self.folder = self.server.folder

    def test_keys_are_private_and_nothing_is_replaced_unasked(self):
        for name in ("ca.key", "server.key", "tenant-a.key"):
            self.assertEqual(0o600, stat.S_IMODE(os.stat(f"{self.folder}/{name}").st_mode), name)
        before = text_of(f"{self.folder}/server.key")
        again = run(CTL, "cert", "init", self.folder, "--host", "x")
        self.assertEqual(1, again.returncode)
        self.assertIn("--force", again.stderr)
        self.assertEqual(before, text_of(f"{self.folder}/server.key"))
        ca = text_of(f"{self.folder}/ca.crt")
        self.assertEqual(0, run(CTL, "cert", "init", self.folder, "--host", "x", "--force").returncode)
        self.assertNotEqual(before, text_of(f"{self.folder}/server.key"))
        self.assertEqual(ca, text_of(f"{self.folder}/ca.crt"), "the CA stays: clients have it")

    def test_openssl_takes_what_was_made(self):
        for leaf, purpose in (("server", "sslserver"), ("tenant-a", "sslclient")):
            out = run("openssl", "verify", "-x509_strict", "-purpose", purpose, "-CAfile", f"{self.folder}/ca.crt",
                      f"{self.folder}/{leaf}.crt")
            self.assertEqual(0, out.returncode, out.stdout + out.stderr)

    def test_names_that_are_none_are_refused(self):
        self.assertEqual(2, run(CTL, "cert", "init", self.folder, "--host", "host:7627", "--force").returncode)
        self.assertEqual(2, run(CTL, "cert", "issue", self.folder, "--tenant", "a b").returncode)
        self.assertEqual(2, run(CTL, "cert", "issue", f"{self.folder}/none", "--tenant", "a").returncode)

    def test_the_output_is_a_configuration(self):
        out = run(CTL, "cert", "init", f"{self.folder}/new", "--host", "localhost").stdout
        section = [line.strip() for line in out.splitlines() if line.startswith("    ") and "=" in line and "SLUICE" not in line]
        config = self.server.write("new.toml", "\n".join(["[server]", 'listen = ["0.0.0.0:0"]', "[tls]", *section, "[[tenant]]",
                                                          'name = "t"', ""]))
        checked = run(CTL, "config", "check", config)
        self.assertEqual(0, checked.returncode, checked.stderr)


class Relay:
    """Between a client and a server, remembering what passes from client to server."""

    def __init__(self, to):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "relay.py")
        self.process = subprocess.Popen([sys.executable, script, to], stdout=subprocess.PIPE, env=clean_environment())
        self.address = self.process.stdout.readline().decode().strip()
        self.collected = None

    @property
    def bytes(self):
        if self.collected is None:
            self.process.terminate()
            self.collected = self.process.communicate()[0]
        return self.collected

    def close(self):
        if self.collected is None:
            self.process.kill()
            self.process.communicate()


def text_of(path):
    with open(path, encoding="utf-8") as text:
        return text.read()


if __name__ == "__main__":
    unittest.main(verbosity=2)
