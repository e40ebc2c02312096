"""What all tests share: one thread, no network, and slow tests only when they are asked for."""

from __future__ import annotations

import os
import socket
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

ON_REQUEST = {
    "slow": "compute for minutes on a real checkpoint: pytest -m slow",
    "peer": "compare with other packages: make test-peer",
    "setup": "make real environments from the package index: make test-setup",
}

# Before anything imports torch or a hub's library, and for the commands that tests start.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["MPLBACKEND"] = "Agg"
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["PYTHONPATH"] = str(ROOT / "workflow")

_left_out: Counter[str] = Counter()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what runs on request only, unless ``-m`` or a test's own id asks for it."""
    if config.option.markexpr or any("::" in argument for argument in config.args):
        return
    chosen, left_out = [], []
    for item in items:
        marker = next((name for name in ON_REQUEST if item.get_closest_marker(name)), None)
        (left_out if marker else chosen).append(item)
        if marker:
            _left_out[marker] += 1
    config.hook.pytest_deselected(items=left_out)
    items[:] = chosen


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tests were left out, and why."""
    for marker, count in _left_out.items():
        terminalreporter.write_line(f"left out: {count} {marker} test(s), which {ON_REQUEST[marker]}")


@pytest.fixture(scope="session")
def root() -> Path:
    """The project's folder."""
    return ROOT


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that looks up a host outside this machine fails, whatever the code under test makes of the error."""
    look_up = socket.getaddrinfo

    def only_here(host, *arguments, **options):
        if host not in (None, "", "localhost", "127.0.0.1", "::1", b"localhost"):
            pytest.fail(f"a test asked for the host {host!r}: tests use no network")
        return look_up(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", only_here)
