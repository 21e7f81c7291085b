"""Why a connection failed, in words that hold neither headers nor bodies, and what to do about its TLS (U12)."""

from __future__ import annotations

import ssl
from collections.abc import Iterator

# X509_V_ERR_* of OpenSSL; the ssl module names none of them.
_NOT_YET, _EXPIRED = 9, 10
_NAMES = frozenset({62, 64})

# What OpenSSL calls the failures of a handshake, by what the user can do about them.
_OLD = frozenset({"UNSUPPORTED_PROTOCOL", "TLSV1_ALERT_PROTOCOL_VERSION", "NO_PROTOCOLS_AVAILABLE", "VERSION_TOO_LOW"})
_PLAIN = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE"})
_CLIENT = frozenset(
    {
        "TLSV13_ALERT_CERTIFICATE_REQUIRED",
        "TLSV1_ALERT_UNKNOWN_CA",
        "SSLV3_ALERT_BAD_CERTIFICATE",
        "SSLV3_ALERT_CERTIFICATE_EXPIRED",
        "SSLV3_ALERT_CERTIFICATE_REVOKED",
        "SSLV3_ALERT_CERTIFICATE_UNKNOWN",
    }
)
_CIPHERS = frozenset({"NO_SHARED_CIPHER", "SSLV3_ALERT_HANDSHAKE_FAILURE", "TLSV1_ALERT_INSUFFICIENT_SECURITY"})


def reason(error: BaseException) -> str:
    """Return a short text of what went wrong, from the innermost cause."""
    *_, innermost = _chain(error)
    if isinstance(innermost, TimeoutError):
        return "no answer in time"
    text = getattr(innermost, "strerror", None) or str(innermost) or type(innermost).__name__
    return " ".join(str(text).split())[:160]


def lasting(error: BaseException) -> bool:
    """Tell whether a failure of TLS would come again: what is wrong are certificates or settings, not the line."""
    found = _tls(error)
    known = _OLD | _PLAIN | _CLIENT | _CIPHERS
    return isinstance(found, ssl.SSLCertVerificationError) or (found is not None and found.reason in known)


def explain(error: BaseException, trust: str) -> tuple[str, str]:
    """Return what is wrong with a peer's TLS and the way out. ``trust``: how an authority is named."""
    found = _tls(error)
    if not isinstance(found, ssl.SSLCertVerificationError):
        return _handshake(error, "" if found is None else found.reason or "")
    what = f"the certificate can't be verified ({found.verify_message or reason(error)})"
    if found.verify_code in {_NOT_YET, _EXPIRED}:
        return what, "see the clock of this machine; else the server needs a new certificate"
    if found.verify_code in _NAMES:
        return what, "reach it by a name that its certificate has"
    return what, f"name the authority that signed it with {trust}"


def _handshake(error: BaseException, why: str) -> tuple[str, str]:
    if why in _OLD:
        return f"it offers no TLS 1.2 or later ({reason(error)})", "switch TLS 1.2 on at the server"
    if why in _CLIENT:
        return f"it refuses our certificate ({reason(error)})", "give a certificate and key that the server trusts"
    if why in _CIPHERS:
        way_out = "see the ciphers set on both sides, and whether the server wants a certificate of its clients"
        return f"both sides have no cipher in common ({reason(error)})", way_out
    return f"there is no TLS with it ({reason(error)})", "is the address right: with TLS or without, and the port?"


def _tls(error: BaseException) -> ssl.SSLError | None:
    return next((one for one in _chain(error) if isinstance(one, ssl.SSLError)), None)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and its causes, as far as requests and urllib3 wrap them."""
    seen = error
    yield seen
    for _ in range(8):
        inner = getattr(seen, "reason", None) or (seen.args[0] if seen.args else None)
        if not isinstance(inner, BaseException):
            inner = seen.__cause__ or seen.__context__
        if inner is None:
            return
        seen = inner
        yield seen
