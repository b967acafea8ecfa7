"""A certificate authority of a test, and the certificate that it gives to a server."""

import ssl
import subprocess
from pathlib import Path

_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]


class Authority:
    """An authority made in `folder`; `pem` is its certificate."""

    def __init__(self, folder: Path, name: str = "an authority of our own") -> None:
        self.folder = folder
        self.key, self.certificate = folder / "authority-key.pem", folder / "authority.pem"
        self._openssl("req", "-x509", *_KEY, "-subj", f"/CN={name}", "-keyout", self.key, "-out", self.certificate)
        self.pem = self.certificate.read_text()

    def server(self, *names: str) -> ssl.SSLContext:
        """What a server of these names shows, such as `DNS:localhost`."""
        key, asked, given, says = (self.folder / name for name in ("key.pem", "asked.pem", "given.pem", "says.cnf"))
        says.write_text(f"subjectAltName={','.join(names)}\nbasicConstraints=CA:FALSE\n")
        self._openssl("req", *_KEY, "-subj", "/CN=a server", "-keyout", key, "-out", asked)
        self._openssl(
            "x509", "-req", "-in", asked, "-CA", self.certificate, "-CAkey", self.key, "-CAcreateserial",
            "-extfile", says, "-out", given,
        )  # fmt: skip
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(given, key)
        return context

    @staticmethod
    def _openssl(*words: "str | Path") -> None:
        subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)
