"""Makes a client from plain settings: where Nailgun is, whose certificate it has, how to log in (U3, U12)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from configdb_sync.configdb.calls import Surroundings
from configdb_sync.configdb.exchange import Exchange
from configdb_sync.configdb.http import HttpExchange
from configdb_sync.configdb.model import Limits
from configdb_sync.configdb.retry import RetryPolicy
from configdb_sync.configdb.tokens import TokenSource
from configdb_sync.errors import SettingsError
from configdb_sync.nailgun.client import NailgunClient

MASTER_CERTIFICATE = Path("/var/lib/fuel/keys/master/nginx/nginx.crt")
"""The self-signed certificate of the master's web server, where the master itself keeps it."""

LIMITS = Limits(connect=5.0, read=120.0, total=240.0)
"""Nailgun computes deployment data when it is asked: a minute passes before the first byte."""


def connect(
    where: str,
    *,
    environ: Mapping[str, str],
    ca_file: Path | None = None,
    own_certificate: Path = MASTER_CERTIFICATE,
    limits: Limits = LIMITS,
    policy: RetryPolicy | None = None,
    surroundings: Surroundings | None = None,
) -> NailgunClient:
    """Return a client of the Nailgun at ``where``; nothing is sent before the first call.

    ``ca_file`` holds the authorities to trust. Without it ``own_certificate`` is trusted if that file is there: it must
    then be the very certificate that the peer has, under whatever name it is reached (a master answers on several, and
    its certificate names one). The login is what ``OS_*`` or ``clouds.yaml`` of ``environ`` say; without them no token
    is sent. Raises ``SettingsError``.
    """
    if ca_file is not None and not ca_file.is_file():
        raise SettingsError(f"the authority file {ca_file} isn't there", way_out="see --nailgun-ca")
    pinned = own_certificate if ca_file is None and own_certificate.is_file() else None
    trusted = ca_file or pinned

    def way(base: str) -> Exchange:
        secure = trusted if base.startswith("https:") else None
        return HttpExchange(base, limits=limits, ca_file=secure, any_name=pinned is not None, trust="--nailgun-ca FILE")

    def login(base: str) -> TokenSource | None:
        if not environ.get("OS_AUTH_URL") and not environ.get("OS_CLOUD"):
            return None
        # Late: keystoneauth takes longer to load than a small run takes.
        from configdb_sync.configdb import catalog

        same = urlsplit(environ.get("OS_AUTH_URL", "")).hostname == urlsplit(base).hostname
        return catalog.tokens_of(environ, default_ca=trusted if same else None, limits=limits)

    return NailgunClient(where, way, login, policy, surroundings)
