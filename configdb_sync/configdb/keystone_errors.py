"""What keystoneauth's errors mean, in the product's own: which part of a login is wrong, and what to do (U5)."""

from __future__ import annotations

from collections.abc import Mapping

from keystoneauth1 import exceptions as faults

from configdb_sync import tls_errors
from configdb_sync.configdb.tls_redirects import LedAwayError
from configdb_sync.errors import UnavailableError, UnexpectedAnswerError
from configdb_sync.masking import is_secret_name

_ADDRESS = "is OS_AUTH_URL right? it looks like http://<master>:5000/v3 or https://<master>:8443/keystone/v3"
_PLAIN_REFUSAL = "the request you have made requires authentication"
_AWAY = (faults.ConnectFailure, faults.ConnectTimeout, faults.HttpServerError, faults.RetriableConnectionFailure)


def said(error: faults.HttpError, auth: Mapping[str, str]) -> str:
    """Return Keystone's own words where they say more than that it refuses, and hold no secret."""
    text = " ".join(str(error.message or "").split())
    text = "".join(character for character in text if character.isprintable())
    secrets = [value for name, value in auth.items() if is_secret_name(name) and value]
    if not text or text.lower().startswith(_PLAIN_REFUSAL) or any(secret in text for secret in secrets):
        return ""
    return f"; it says: {text[:200]}"


def meant(where: str, error: faults.ClientException) -> UnavailableError | UnexpectedAnswerError:
    """Return the error that a fault other than a refusal is."""
    if isinstance(error, faults.DiscoveryFailure) and isinstance(error.__context__, faults.ClientException):
        # Which versions there are is asked first, and what kept it from being told is what is wrong.
        inner = error.__context__
        return no_keystone(where, "it tells no versions") if _is_answer(inner) else meant(where, inner)
    if isinstance(error, faults.SSLError):
        what, way_out = tls_errors.explain(error, "OS_CACERT")
        return UnavailableError(f"Keystone {where}: {what}; nothing was sent", way_out=way_out)
    if isinstance(error, _AWAY):
        return UnavailableError(f"Keystone {where} can't be reached or fails", way_out="is OS_AUTH_URL right?")
    return _of_answer(where, error)


def _of_answer(where: str, error: faults.ClientException) -> UnexpectedAnswerError:
    if isinstance(error, faults.DiscoveryFailure):
        return UnexpectedAnswerError(
            f"Keystone {where} offers no version that this login is for",
            way_out="is OS_AUTH_URL right? v2.0 takes no OS_*_DOMAIN_* but OS_DEFAULT_DOMAIN_*",
        )
    if isinstance(original := getattr(error, "original", None), LedAwayError):
        return UnexpectedAnswerError(f"Keystone {where}: {original}", way_out="give Keystone's own address, with https")
    if _is_answer(error):
        status = getattr(error, "http_status", None)
        return no_keystone(where, f"it answered {status}" if status else "its answer is another one's")
    return UnexpectedAnswerError(
        f"Keystone {where} can't be used: {type(error).__name__}", way_out="is OS_AUTH_URL right?"
    )


def _is_answer(error: faults.ClientException) -> bool:
    """Tell whether something answered, but not as Keystone does. A login that is wanted before versions are told is
    what keystoneauth says with ``MissingAuthPlugin``."""
    foreign = (faults.DiscoveryFailure, faults.HTTPClientError, faults.InvalidResponse, faults.MissingAuthPlugin)
    return isinstance(error, foreign)


def no_keystone(where: str, why: str) -> UnexpectedAnswerError:
    """Return the error of an address where something else answers."""
    return UnexpectedAnswerError(f"{where} is no Keystone: {why}", way_out=_ADDRESS)
