"""Gets the peers that a laboratory is made of, then becomes it. Standard library only."""

from __future__ import annotations

import os
import sys

import bus
import peers
import run_tests


def main() -> None:
    run_tests.set_path(peers.obtain(run_tests.ROOT / ".cache"))
    bus.obtain(run_tests.ROOT / ".cache")
    os.chdir(run_tests.ROOT)
    os.execv(sys.executable, [sys.executable, "-m", "tests.lab", *sys.argv[1:]])


if __name__ == "__main__":
    main()
