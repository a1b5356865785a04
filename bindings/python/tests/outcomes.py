"""Prints each test's outcome in the form of Rust's tests, which `cargo xtask test` counts, and the
seed of random tests. Runs only the tests whose names contain ATP_TEST_FILTER."""

from __future__ import annotations

import os
import random
import secrets

import pytest

SEED = int(os.environ.get("ATP_TEST_SEED", "0")) or secrets.randbits(32)
FILTER = os.environ.get("ATP_TEST_FILTER", "")
# The exit code of Rust's test binaries after a failed test. Any other code is a failure by itself.
TESTS_FAILED = 101
_counts = {"passed": 0, "failed": 0, "skipped": 0}


@pytest.fixture
def rng() -> random.Random:
    return random.Random(SEED)


def _name(nodeid: str) -> str:
    return nodeid.removeprefix("tests/").replace(".py::", "::")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [item for item in items if FILTER not in _name(item.nodeid)]
    items[:] = [item for item in items if FILTER in _name(item.nodeid)]
    config.hook.pytest_deselected(items=left_out)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if exitstatus == pytest.ExitCode.TESTS_FAILED:
        session.exitstatus = TESTS_FAILED
    elif exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and FILTER:
        session.exitstatus = pytest.ExitCode.OK


def pytest_runtest_logstart(nodeid: str) -> None:
    print(f"\nbegan {_name(nodeid)}", flush=True)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    name = _name(report.nodeid)
    if report.failed:
        _counts["failed"] += 1
        print(f"\ntest {name} ... FAILED", flush=True)
    elif report.skipped:
        _counts["skipped"] += 1
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        print(f"\ntest {name} ... ignored, {reason.removeprefix('Skipped: ')}", flush=True)
    elif report.when == "call":
        _counts["passed"] += 1
        print(f"\ntook {name}: {report.duration:.3f} s\ntest {name} ... ok", flush=True)


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary() -> None:
    passed, failed, skipped = _counts["passed"], _counts["failed"], _counts["skipped"]
    outcome = "FAILED" if failed else "ok"
    print(f"\nrandom tests: repeat them with ATP_TEST_SEED={SEED}")
    print(f"test result: {outcome}. {passed} passed; {failed} failed; {skipped} ignored")
