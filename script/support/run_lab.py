"""Gets the peers that a laboratory is made of, then becomes it. Standard library only."""

from __future__ import annotations

import os
import sys

import bus
import peers
import run_tests


def main() -> None:
    # Nodes that are simulated on a broker of one's own need none of them.
    if not any(word.startswith("--mco-config") for word in sys.argv[1:]):
        run_tests.set_path(peers.obtain(run_tests.ROOT / ".cache"))
        bus.obtain(run_tests.ROOT / ".cache")
    os.chdir(run_tests.ROOT)
    os.execv(sys.executable, [sys.executable, "-m", "tests.lab", *sys.argv[1:]])


if __name__ == "__main__":
    main()
