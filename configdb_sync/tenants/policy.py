"""What callers may do (T12): oslo.policy's rules, the operator's file over the defaults, decisions kept.

A decision costs oslo.policy a tenth of a millisecond; the same question is answered from a bounded dictionary. The file
is looked at once in some seconds: a changed one holds from then on, a broken one is reported and changes nothing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from oslo_config import cfg
from oslo_policy import policy

from configdb_sync.clock import Clock
from configdb_sync.errors import SettingsError
from configdb_sync.tenants import policy_file
from configdb_sync.tenants.policies import OWN, rules
from configdb_sync.tenants.requests import Caller

log = logging.getLogger(__name__)

EVERY = 10.0
"""Seconds between looks at the file."""
_MOST = 10_000
_Question = tuple[str, str, frozenset[str], str | None, bool]


@dataclass(frozen=True)
class _Rules:
    """The rules that hold, and the answers given by them; replaced as a whole."""

    enforcer: policy.Enforcer
    owning: frozenset[str]
    stamp: tuple[int, ...] | None
    answers: dict[_Question, bool]


class Policy:
    """Decides on calls. Safe for several threads."""

    def __init__(self, clock: Clock, path: Path | None = None, admin_role: str = "admin") -> None:
        """Raise ``SettingsError`` for a file that can't be used, with the line at fault."""
        self._clock = clock
        self._path = path
        self._admin_role = admin_role
        self._lock = threading.Lock()
        self._rules = self._loaded()
        self._looked = clock.monotonic()

    def asks_for_own(self, rule: str) -> bool:
        """Tell whether the rule depends on whether the tenant is the caller's own."""
        return rule in self._current().owning

    def allows(self, rule: str, caller: Caller, *, own: bool) -> bool:
        """Tell whether a caller may do what needs a rule. ``own``: the tenant asked for is the caller's own."""
        now = self._current()
        question = (rule, caller.name, caller.roles, caller.project, own)
        answer = now.answers.get(question)
        if answer is None:
            target = {"own": str(own)}
            credentials = {"roles": sorted(caller.roles), "user_name": caller.name}
            if caller.project is not None:
                credentials["project_id"] = caller.project
            answer = now.enforcer.authorize(rule, target, credentials)
            if len(now.answers) >= _MOST:
                now.answers.clear()
            now.answers[question] = answer
        return answer

    def _current(self) -> _Rules:
        if self._path is None or self._clock.monotonic() - self._looked < EVERY:
            return self._rules
        with self._lock:
            if self._clock.monotonic() - self._looked < EVERY:
                return self._rules
            self._looked = self._clock.monotonic()
            try:
                if policy_file.stamp(self._path.stat()) != self._rules.stamp:
                    self._rules = self._loaded()
                    log.warning("the policy file %s has changed and holds from now on", self._path)
            except (SettingsError, OSError) as error:
                log.error("the policy that held before holds on: %s", error)
            return self._rules

    def _loaded(self) -> _Rules:
        defaults = rules(self._admin_role)
        texts = {one.name: one.check_str for one in defaults}
        stamp = None
        if self._path is not None:
            own, stamp = policy_file.read(self._path, texts)
            texts |= own
        configuration = cfg.ConfigOpts()
        configuration([], project="configdb-sync-tenants", default_config_files=[], default_config_dirs=[])
        enforcer = policy.Enforcer(configuration)
        enforcer.register_defaults(defaults)
        enforcer.set_rules(policy.Rules.from_dict(texts), overwrite=True, use_conf=False)
        return _Rules(enforcer, frozenset(name for name in texts if _mentions_own(texts, name)), stamp, {})


def _mentions_own(texts: Mapping[str, str], name: str, seen: frozenset[str] = frozenset()) -> bool:
    text = texts.get(name, "")
    if name == OWN or "own" in text:
        return True
    return any(_mentions_own(texts, other, seen | {name}) for other in policy_file.named(text) if other not in seen)
