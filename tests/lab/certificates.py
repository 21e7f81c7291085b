"""A certificate authority of one's own and what it has signed, made with OpenSSL's command."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


@dataclass(frozen=True)
class Authority:
    """A private CA: files below ``folder``."""

    folder: Path
    name: str

    @property
    def certificate(self) -> Path:
        """The CA's own certificate."""
        return self.folder / f"{self.name}.pem"

    def sign(self, name: str, *alternatives: str) -> tuple[Path, Path]:
        """Return certificate and key for a server with these names (``DNS:localhost``, ``IP:127.0.0.1``)."""
        certificate, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        extensions = ["-addext", f"subjectAltName={','.join(alternatives)}"] if alternatives else []
        _openssl(
            *("req", "-x509", *_KEY, "-days", "30", "-subj", f"/CN={name}", *extensions),
            *("-addext", "basicConstraints=critical,CA:FALSE"),
            *("-CA", self.certificate, "-CAkey", self.folder / f"{self.name}.key"),
            *("-keyout", key, "-out", certificate),
        )
        return certificate, key

    def sign_expired(self, name: str, *alternatives: str) -> tuple[Path, Path]:
        """Return the same, with a certificate that was good in January 2020."""
        certificate, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        work = self.folder / f"{name}.ca"
        work.mkdir()
        (work / "index").touch()
        (work / "conf").write_text(
            f"[ca]\ndefault_ca = one\n[one]\ndatabase = {work}/index\nserial = {work}/serial\n"
            f"new_certs_dir = {work}\ndefault_md = sha256\npolicy = any\n[any]\ncommonName = supplied\n"
            f"[server]\nbasicConstraints = critical,CA:FALSE\nsubjectAltName = {','.join(alternatives)}\n"
        )
        _openssl("req", "-new", *_KEY, "-subj", f"/CN={name}", "-keyout", key, "-out", work / "request")
        _openssl(
            *("ca", "-batch", "-rand_serial", "-config", work / "conf", "-extensions", "server"),
            *("-startdate", "20200101000000Z", "-enddate", "20200201000000Z", "-in", work / "request"),
            *("-cert", self.certificate, "-keyfile", self.folder / f"{self.name}.key", "-out", certificate),
        )
        return certificate, key


def make_authority(folder: Path, name: str) -> Authority:
    """Make a CA in ``folder``."""
    _openssl(
        *("req", "-x509", *_KEY, "-days", "30", "-subj", f"/CN={name}"),
        *("-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign,cRLSign"),
        *("-keyout", folder / f"{name}.key", "-out", folder / f"{name}.pem"),
    )
    return Authority(folder, name)


def _openssl(*words: str | Path) -> None:
    done = subprocess.run(["openssl", *map(str, words)], capture_output=True, text=True, check=False, timeout=60)
    if done.returncode:
        raise RuntimeError(f"openssl {words[0]}: {done.stderr[-1000:]}")
