"""Names of the product's own things in ConfigDB (U6, U18). Pure."""

from __future__ import annotations

import hashlib

LONGEST_NAME = 128

RECORDS = "records"
"""The data source that holds the product's own records of an environment; it is no file and no tenant's."""
_DIGEST = 32


def component_name(tenant: str, environment: int) -> str:
    """Return the name of the component that groups a tenant's data sources of an environment.

    ``<tenant>/<environment>``; where that is longer than the server's 128 characters it is cut and ends in a
    digest of the whole.
    """
    name = f"{tenant}/{environment}"
    if len(name) <= LONGEST_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGEST]
    return f"{name[: LONGEST_NAME - _DIGEST - 1]}~{digest}"


def records_component(environment: int) -> str:
    """Return the name of the component of the product's own records; no tenant's can begin with a slash."""
    return f"/configdb-sync/{environment}"
