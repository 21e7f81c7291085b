"""What is secret in a cloud's settings, and how it is shown instead (U3, U20, Y20).

A leaf is secret if a key on its way down is named like a secret, or if its text looks like one. It shows as a
short HMAC under a key of the state folder: equal secrets look equal, and nobody without the key can try passwords.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from configdb_sync.jsonvalues import Json, canonical

_SECRET_NAME = re.compile(
    # What precedes `key` makes it a secret: `api_key`, `fernet_keys`; a bare `key` is any key of a mapping.
    r"(?<!public)(?<!primary)(?<!foreign)(?<!routing)(?<!sort)(?<!partition)(?<=[^\W_])[_\W]+keys?(?:$|[\W\d]|_\d)"
    r"|(?:auth|ssh|api|access|encryption|signing|master|shared|account|license)keys?(?:$|[\W\d]|_\d)"
    r"|private[_\W]?key|(?:rsa|ssh|ssl|tls|key|cert)[_\W]?private"
    r"|(?<!by)(?<!com)pass(?:wd|word|phrase|code)?s?(?:$|[_\W\d])(?!through)|password|passwd|pwd?(?:$|[_\W\d])"
    r"|secret|token|credential|cookie|psk|cert(?:$|[_\W\d])|certificate|hmac|salt(?:$|[_\W\d])|seed(?:$|[_\W\d])"
    r"|snmp[_\W]?community|community[_\W]?string",
    re.IGNORECASE,
)
_ABOUT = re.compile(
    r"[_\W](?:provider|source|driver|backend|algorithm|format|expiration|expiry|lifetime|ttl|length)$", re.IGNORECASE
)
"""The end of a name that describes a secret and holds none: `token_provider`, `cert_source`."""
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SECRET_TEXT = re.compile(
    r"-----BEGIN|://[^/\s:@]*:[^/\s@]+@|(?:password|passwd|secret|token|api_?key)\s*[=:]\s*\S"
    # A key of Ceph's, under whatever name.
    r"|\bAQ[A-Za-z0-9+/]{36}==",
    re.IGNORECASE,
)

Path = tuple[str, ...]
"""Keys (and list indexes as text) from a document's top level down."""


def is_secret_name(name: str) -> bool:
    """Tell whether everything below a key of this name is secret."""
    plain = _HUMP.sub("_", name)  # apiKey is api_key
    return _SECRET_NAME.search(plain) is not None and _ABOUT.search(plain) is None


def is_secret_path(path: Sequence[str]) -> bool:
    """Tell whether any key on the way is named like a secret."""
    return any(map(is_secret_name, path))


@dataclass(frozen=True)
class Masker:
    """Shows values without their secrets."""

    key: bytes = field(repr=False)

    def token(self, value: Json) -> str:
        """Return the text that stands for one secret value, the same for equal values."""
        digest = hmac.new(self.key, canonical(value).encode("ascii"), hashlib.sha256).hexdigest()
        return f"<masked {digest[:8]}>"

    def shown(self, path: Sequence[str], value: Json) -> Json:
        """Return ``value`` (found at ``path``) with each secret leaf replaced by its token.

        Null and booleans are shown as they are: they reveal nothing.
        """
        return self._shown(value, secret=is_secret_path(path))

    def _shown(self, value: Json, *, secret: bool) -> Json:
        if isinstance(value, dict):
            return {key: self._shown(child, secret=secret or is_secret_name(key)) for key, child in value.items()}
        if isinstance(value, list):
            return [self._shown(child, secret=secret) for child in value]
        if value is None or isinstance(value, bool):
            return value
        if secret or (isinstance(value, str) and _SECRET_TEXT.search(value)):
            return self.token(value) if value != "" else value
        return value
