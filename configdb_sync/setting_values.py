"""How one value of a setting is read: the same rule for every field, wherever the value comes from (U3, F3). Pure.

A text is stripped of blanks; if it is empty then, it counts as not given. A secret keeps every character, and blanks
at its ends are refused. Line breaks and other invisible characters are refused, and so is every value of another type:
nothing is cut, joined or converted to a text. A reader raises ``ValueError`` that says what it takes.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from contextlib import suppress
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from configdb_sync.errors import SettingsError
from configdb_sync.masking import is_secret_name

T = TypeVar("T")
Levels = tuple[tuple[str, str], ...]
"""Hierarchy levels from the root's side with the template of each."""

DEFAULT_LEVELS: Levels = (("nodes", "%{uid}"),)

_ADDRESS = "give an address like https://10.20.0.2:8083"
_LIST = "give a list of names"
_NUMBER = re.compile(r"[0-9]{1,15}(\.[0-9]{0,15})?|\.[0-9]{1,15}")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,252}[A-Za-z0-9])?")
# Addresses: these may hold a password, before an @ or behind a ?.
_HIDDEN = re.compile(r"configdb|nailgun|.*_url", re.IGNORECASE)

CLUSTERS = "/etc/fuel/cluster"
"""Where Fuel keeps a folder for each environment, on nodes and on the master."""
ENV = "<env>"
"""In ``writable``: the environment's number."""
ROLE = "<role>"
"""In ``writable``: the name of a file that ``/etc/astute.yaml`` links to."""


def checked(place: str, name: str, value: Any, reader: Callable[[Any], T]) -> T:
    """Return a value as ``reader`` reads it; ``SettingsError`` names the place, the field and what it takes."""
    try:
        return reader(value)
    except ValueError as error:
        raise SettingsError(f"{place}: {name} is {_shown(name, value)}", way_out=str(error)) from None


def given(place: str, values: Mapping[str, Any], name: str, reader: Callable[[Any], T]) -> T | None:
    """Return a field's value as ``reader`` reads it, None if the field is empty. Raises as ``checked``."""
    value = values.get(name)
    return None if is_empty(value) else checked(place, name, value, reader)


def is_empty(value: Any) -> bool:
    """Tell whether a value counts as not given."""
    return value is None or (isinstance(value, str) and not value.strip())


def text(value: Any) -> str:
    """Return a text without blanks at its ends."""
    if not isinstance(value, str):
        raise ValueError("give a text; what looks like a number, a date, true or false goes in quotes")
    found = value.strip()
    if not found:
        raise ValueError("give a text that isn't empty")
    if not found.isprintable():
        raise ValueError("give one line of visible characters")
    return found


def secret(value: Any) -> str:
    """Return a secret as it is."""
    if not isinstance(value, str) or not value:
        raise ValueError("give a text; what looks like a number, a date, true or false goes in quotes")
    if value != value.strip():
        raise ValueError("take away the blanks and line breaks at its ends")
    if any(unicodedata.category(char) in {"Cc", "Cs", "Zl", "Zp"} for char in value):
        raise ValueError("give one line without control characters")
    return value


def path(value: Any) -> Path:
    """Return the path of a file or folder."""
    return Path(text(value))


def address(value: Any) -> str:
    """Return an http address without a slash at its end."""
    found = text(value)
    try:
        parts = urlsplit(found)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise ValueError(_ADDRESS) from None
    if "@" in parts.netloc:
        raise ValueError(f"{_ADDRESS}, without credentials: they have settings of their own")
    odd = not found.isascii() or set(found) & set(' "<>\\^`{|}')
    if odd or parts.scheme not in {"http", "https"} or not host or "?" in found or "#" in found:
        raise ValueError(f"{_ADDRESS}, without ? and #")
    return found.rstrip("/")


def configdb(value: Any) -> str:
    """Return ``embedded``, ``catalog`` or the address of ConfigDB."""
    found = text(value)
    if "://" not in found and found not in {"embedded", "catalog"}:
        raise ValueError("give embedded, catalog, or an address like https://10.20.0.2:8082")
    return found if "://" not in found else address(found)


def host(value: Any) -> str:
    """Return the name or address of a machine, as it stands in an address."""
    found = text(value)
    if ":" in found and "%" not in found:
        with suppress(ValueError):
            IPv6Address(found)
            return f"[{found}]"
    if not _HOST.fullmatch(found):
        raise ValueError("give the name or the address of a machine")
    return found


def flag(value: Any) -> bool:
    """Return true or false."""
    if isinstance(value, bool):
        return value
    words = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
    if isinstance(value, str) and value.strip().lower() in words:
        return words[value.strip().lower()]
    raise ValueError("give true or false")


def whole(low: int, high: int) -> Callable[[Any], int]:
    """Return the reader of a whole number from ``low`` to ``high``."""

    def read(value: Any) -> int:
        found = value.strip() if isinstance(value, str) else value
        if isinstance(found, str) and found.isascii() and found.isdigit() and len(found) < 19:
            found = int(found)
        if type(found) is not int or not low <= found <= high:
            raise ValueError(f"give a whole number from {low} to {high}")
        return found

    return read


def number(low: float, high: float) -> Callable[[Any], float]:
    """Return the reader of a number from ``low`` to ``high``."""

    def read(value: Any) -> float:
        found: Any = value.strip() if isinstance(value, str) else value
        if isinstance(found, str) and _NUMBER.fullmatch(found):
            found = float(found)
        if type(found) not in {int, float} or not low <= found <= high:
            raise ValueError(f"give a number from {low:g} to {high:g}")
        return float(found)

    return read


def tenant(value: Any) -> str:
    """Return a tenant's ID."""
    found = text(value)
    if len(found) > 255 or "/" in found:
        raise ValueError("give 1 to 255 characters without a slash")
    return found


def levels(value: Any) -> Levels:
    """Return hierarchy levels as names and templates, from ``name=template,...`` or a mapping."""
    wanted = ValueError("give the levels outermost first: cluster=%{deployment_id},nodes=%{uid}")
    items: list[tuple[Any, Any]] = []
    if isinstance(value, str):
        parts = [part.partition("=") for part in value.split(",")]
        items = [(name, template) for name, _, template in parts]
    elif isinstance(value, Mapping):
        items = list(value.items())
    try:
        found = tuple((text(name), text(template)) for name, template in items)
    except ValueError:
        raise wanted from None
    names = [name for name, _ in found]
    if not found or len(set(names)) < len(names) or any(set(name) & set(",=/") for name in names):
        raise wanted
    return found


def names(value: Any) -> tuple[str, ...]:
    """Return a list of names, from a list or from ``name,...``."""
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, (list, tuple)):
        raise ValueError(_LIST)
    try:
        return tuple(map(text, items))
    except ValueError as error:
        raise ValueError(f"{_LIST}; of each, {error}") from None


def choices(known: tuple[str, ...]) -> Callable[[Any], tuple[str, ...]]:
    """Return the reader of a list of known names; ``none`` stands for the empty list."""

    def read(value: Any) -> tuple[str, ...]:
        wanted = f"give a list of {', '.join(known)}, or none"
        try:
            found = names(value)
        except ValueError:
            raise ValueError(wanted) from None
        if found == ("none",):
            return ()
        if not found or not set(found) <= set(known):
            raise ValueError(wanted)
        return found

    return read


def places(value: Any) -> tuple[str, ...]:
    """Return the places on a node where files may be written, without slashes at their ends.

    A place that holds folders of several environments is refused: below ``/etc/fuel/cluster`` it names ``<env>``.
    """
    found = tuple(place.rstrip("/") for place in names(value))
    for place in found:
        steps = place.split("/")[1:]
        plain = place.startswith("/") and not set(steps) & {"", ".", ".."} and steps
        if not plain or not set(steps[:-1]) <= {ENV, *(step for step in steps if not set(step) & set("<>"))}:
            raise ValueError(f"give absolute paths; {place[:60]!r} is none")
        rest = steps[-1].replace(ROLE, "", 1) if len(steps) > 1 else steps[-1]
        if rest != ENV and set(rest) & set("<>"):
            raise ValueError(f"only {ENV}, and {ROLE} in a file's name, may be in a path: {place[:60]!r}")
        inside = f"{place}/".startswith(f"{CLUSTERS}/") and not f"{place}/".startswith(f"{CLUSTERS}/{ENV}/")
        if inside or f"{CLUSTERS}/".startswith(f"{place}/"):
            raise ValueError(
                f"{place!r} holds files of other environments: give {CLUSTERS}/{ENV}, and folders beside /etc/fuel"
            )
    if not found:
        raise ValueError("give at least one absolute path")
    return found


def login(name: str) -> Callable[[Any], str]:
    """Return the reader of one of keystoneauth's settings, by its name without ``OS_``, in lower case."""
    if name in {"password", "passcode", "token", "application_credential_secret"}:
        return secret
    if name == "auth_url":
        return _login_address
    if name == "insecure":
        return lambda value: "true" if flag(value) else "false"
    return text


def _login_address(value: Any) -> str:
    address(value)
    return text(value)


def _shown(name: str, value: Any) -> str:
    """Return a value as an error may show it."""
    address = _HIDDEN.fullmatch(name.rpartition(".")[2]) and (not isinstance(value, str) or set(value) & set("@?#"))
    hidden = is_secret_name(name) or address or name.endswith("database")
    if hidden or not isinstance(value, (str, int, float)):
        return f"not valid ({type(value).__name__}, not shown)"
    found = repr(value)
    return found if len(found) <= 60 else f"{found[:57]}..."
