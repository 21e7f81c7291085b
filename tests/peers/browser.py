"""A real browser: Debian's Chromium without a window, driven by Selenium, and axe-core to judge pages by."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

from selenium.webdriver import Chrome, ChromeOptions, ChromeService

CACHE = Path(__file__).resolve().parents[2] / ".cache"
AXE = "axe-playwright-python==0.1.8"
"""The package of the index that has axe-core in it; nothing else of it is used."""
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--window-size=1400,1000",
)
START = 120.0


@functools.cache
def unavailable() -> str | None:
    """Return why there is no browser here, or None."""
    for name in ("chromium", "chromedriver"):
        if shutil.which(name) is None:
            return f"{name} is not installed here"
    try:
        subprocess.run(["chromium", "--version"], check=True, capture_output=True, timeout=START)
    except (OSError, subprocess.SubprocessError):
        return "chromium can't be started here"
    return None


@contextlib.contextmanager
def running(profile: Path) -> Iterator[Chrome]:
    """Yield a browser with a profile of its own that keeps what its console says."""
    options = ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = Chrome(options=options, service=ChromeService(shutil.which("chromedriver")))
    try:
        driver.set_page_load_timeout(START)
        driver.set_script_timeout(START)
        yield driver
    finally:
        driver.quit()


def axe() -> str | None:
    """Return axe-core's script, downloaded once; None where no index can be reached."""
    folder = CACHE / "axe"
    folder.mkdir(parents=True, exist_ok=True)
    with (CACHE / "axe.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not list(folder.glob("*.whl")):
            command = [sys.executable, "-m", "pip", "download", "-qq", "--no-deps", "--dest", str(folder), AXE]
            subprocess.run(command, check=False, capture_output=True, timeout=300)
        for wheel in folder.glob("*.whl"):
            with zipfile.ZipFile(wheel) as packed:
                name = next(name for name in packed.namelist() if name.endswith("axe.min.js"))
                return packed.read(name).decode("utf-8")
    return None
