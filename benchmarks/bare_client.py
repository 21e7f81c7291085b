"""The floor for a sync: reads and parses the files with ``CSafeLoader``, then makes the very same requests.

``python -m benchmarks.bare_client TREES REQUESTS URL TOKEN_FILE PARALLEL``; REQUESTS holds a JSON list a line:
method, path, body.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import requests
import yaml
from requests.adapters import HTTPAdapter

Sent = tuple[str, str, str | None]


def main() -> None:
    """Do what the arguments say."""
    trees, recorded, url, token_file, parallel = sys.argv[1:]
    for path in sorted(Path(trees).glob("node-*/etc/hiera/**/*.yaml")):
        yaml.load(path.read_bytes(), yaml.CSafeLoader)
    session = requests.Session()
    session.headers["X-Auth-Token"] = Path(token_file).read_text().strip()
    session.mount("http://", HTTPAdapter(pool_maxsize=int(parallel)))
    shared: list[Sent] = []
    by_node: dict[str, list[Sent]] = {}
    for line in Path(recorded).read_text().splitlines():
        sent = json.loads(line)
        node = sent[1].partition("/nodes/")[2].partition("/")[0]
        (by_node.setdefault(node, []) if node else shared).append(sent)

    def send(batch: list[Sent]) -> None:
        for method, path, body in batch:
            headers = {"Content-Type": "application/json"} if body is not None else None
            answer = session.request(method, url + path, data=body, headers=headers, timeout=60)
            assert answer.status_code < 500, (method, path, answer.status_code)

    send(shared)
    with ThreadPoolExecutor(int(parallel)) as pool:
        list(pool.map(send, by_node.values()))


main()
