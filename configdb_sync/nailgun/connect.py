"""Makes a client from plain settings: where Nailgun is, whose certificate it has, how to log in (U3, U12)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from configdb_sync.errors import SettingsError
from configdb_sync.http.connections import HttpTransport
from configdb_sync.http.session import RetryPolicy, Timing
from configdb_sync.http.tokens import TokenSource
from configdb_sync.http.transport import TransferLimits, Transport
from configdb_sync.nailgun.client import NAILGUN, NailgunClient

MASTER_CERTIFICATE = Path("/var/lib/fuel/keys/master/nginx/nginx.crt")
"""The self-signed certificate of the master's web server, where the master itself keeps it."""

LIMITS = TransferLimits(connect=5.0, read=120.0, total=240.0)
"""Nailgun computes deployment data when it is asked: a minute passes before the first byte."""


@dataclass(frozen=True)
class Trust:
    """What verifies a peer: ``file``, None for the system's authorities. ``any_name``: it is the peer's own."""

    file: Path | None = None
    any_name: bool = False

    def of_keystone(self, environ: Mapping[str, str], nailgun: str) -> Trust:
        """Return what verifies the Keystone of a login: the same if it is on the host of the Nailgun at ``nailgun``."""
        same = urlsplit(environ.get("OS_AUTH_URL", "")).hostname == urlsplit(nailgun).hostname
        return self if same else Trust()


def trust_in(ca_file: Path | None, own_certificate: Path = MASTER_CERTIFICATE) -> Trust:
    """Return what verifies Nailgun: the file that was named, else the master's own certificate if it is there."""
    if ca_file is not None:
        return Trust(ca_file)
    return Trust(own_certificate, any_name=True) if own_certificate.is_file() else Trust()


def connect(
    where: str,
    *,
    environ: Mapping[str, str],
    ca_file: Path | None = None,
    own_certificate: Path = MASTER_CERTIFICATE,
    limits: TransferLimits = LIMITS,
    policy: RetryPolicy | None = None,
    timing: Timing | None = None,
) -> NailgunClient:
    """Return a client of the Nailgun at ``where``; nothing is sent before the first call.

    ``ca_file`` holds the authorities to trust. Without it ``own_certificate`` is trusted if that file is there: it must
    then be the very certificate that the peer has, under whatever name it is reached (a master answers on several, and
    its certificate names one). The login is what ``OS_*`` or ``clouds.yaml`` of ``environ`` say. A user without a
    Keystone is one of the Keystone beside Nailgun, behind the same web server. Raises ``SettingsError``.
    """
    if ca_file is not None and not ca_file.is_file():
        raise SettingsError(f"the authority file {ca_file} isn't there", way_out="see --nailgun-ca")
    trust = trust_in(ca_file, own_certificate)

    def way(base: str) -> Transport:
        secure = trust.file if base.startswith("https:") else None
        return HttpTransport(base, limits=limits, ca_file=secure, any_name=trust.any_name, authority=NAILGUN.authority)

    def login(base: str) -> TokenSource | None:
        given = environ
        if not given.get("OS_AUTH_URL") and not given.get("OS_CLOUD"):
            if not given.get("OS_USERNAME") and not given.get("OS_USER_ID"):
                return None
            given = {**environ, "OS_AUTH_URL": f"{base}/keystone"}
        # Late: keystoneauth takes longer to load than a small run takes.
        from configdb_sync.keystone.login import read_login

        own = trust.of_keystone(given, base)
        return read_login(given, default_ca=own.file, any_name=own.any_name, limits=limits)

    return NailgunClient(where, way, login, policy, timing)
