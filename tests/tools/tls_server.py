"""A sluiced with certificates of its own making. As tests/tools/harness.py."""
from harness import BUILD, Server, run

CTL = f"{BUILD}/bin/sluicectl"


class TlsServer(Server):
    """With certificates in its folder, FOLDER in `tls`, which is more of [tls]; `server` is more of [server]. It is known as
    localhost and by its numeric address."""

    def __init__(self, tls="", server="", rest="", listen='"127.0.0.1:0"'):
        self.tls = tls
        self.host = listen.strip('"').rsplit(":", 1)[0]
        super().__init__(server, rest, listen)

    def config_text(self, server="", rest="", listen='"127.0.0.1:0"'):
        made = run(CTL, "cert", "init", self.folder, "--host", self.host, "--host", "localhost")
        if made.returncode != 0:
            raise AssertionError(made.stderr)
        for tenant in ("a", "certified"):
            issued = run(CTL, "cert", "issue", self.folder, "--tenant", tenant)
            if issued.returncode != 0:
                raise AssertionError(issued.stderr)
        return super().config_text(server, f'''{rest}
[tls]
certificate = "{self.folder}/server.crt"
key = "{self.folder}/server.key"
{self.tls.replace('FOLDER', self.folder)}
''', listen)

    @property
    def ca(self):
        return f"{self.folder}/ca.crt"

    @staticmethod
    def encrypted(ca, **more):
        """The environment of a client that encrypts."""
        return {"SLUICE_TLS": "on", "SLUICE_TLS_CA": ca, **more}

    def with_token(self):
        return self.encrypted(self.ca, SLUICE_TENANT="a", SLUICE_TOKEN_FILE=self.token)

    def with_certificate(self, tenant):
        return self.encrypted(self.ca, SLUICE_TENANT="", SLUICE_TOKEN_FILE="", SLUICE_TLS_CERT=f"{self.folder}/tenant-{tenant}.crt",
                              SLUICE_TLS_KEY=f"{self.folder}/tenant-{tenant}.key")
