"""Why a connection failed, in words that hold neither headers nor bodies, and what to do about a certificate (U12)."""

from __future__ import annotations

import ssl
from collections.abc import Iterator

# X509_V_ERR_* of OpenSSL; the ssl module names none of them.
_NOT_YET, _EXPIRED = 9, 10
_NAMES = frozenset({62, 64})


def reason(error: BaseException) -> str:
    """Return a short text of what went wrong, from the innermost cause."""
    *_, innermost = _chain(error)
    if isinstance(innermost, TimeoutError):
        return "no answer in time"
    text = getattr(innermost, "strerror", None) or str(innermost) or type(innermost).__name__
    return " ".join(str(text).split())[:160]


def certificate(error: BaseException, trust: str) -> tuple[str, str]:
    """Return what is wrong with a peer's TLS and the way out. ``trust``: how an authority is named."""
    found = next((one for one in _chain(error) if isinstance(one, ssl.SSLCertVerificationError)), None)
    if found is None:
        return f"there is no TLS with it ({reason(error)})", "is the address right: http or https, and the port?"
    what = f"the certificate can't be verified ({found.verify_message or reason(error)})"
    if found.verify_code in {_NOT_YET, _EXPIRED}:
        return what, "see the clock of this machine; else the server needs a new certificate"
    if found.verify_code in _NAMES:
        return what, "reach it by a name that its certificate has"
    return what, f"name the authority that signed it with {trust}"


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
