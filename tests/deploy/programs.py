"""Finds the programs that the tests run, and decides what their absence means.

On a developer's machine a missing program skips its tests and says so. In CI (the environment
variable CI is set) the same absence is a failure: a green run must not hide that nothing ran.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import unittest

REPO = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = REPO / "deploy"
TIMEOUT_S = 60


def absent(reason):
    """Ends the calling test, which is skipped here and fails in CI."""
    if os.environ.get("CI"):
        raise AssertionError(f"{reason}; in CI that is a failure")
    raise unittest.SkipTest(reason)


def find(name):
    """Returns the program beside this Python (in a virtual environment) if it is there, else on PATH."""
    beside = pathlib.Path(sys.executable).parent / name
    path = str(beside) if beside.exists() else shutil.which(name)
    return path or absent(f"{name} is not installed, see tests/deploy/requirements.txt")


def built(name):
    """Returns a kvtier binary from KVTIER_BIN_DIR. Unset means there was no build to test."""
    folder = os.environ.get("KVTIER_BIN_DIR")
    if not folder:
        raise unittest.SkipTest(f"KVTIER_BIN_DIR is not set, so {name} was not looked at")
    path = pathlib.Path(folder) / name
    if not os.access(path, os.X_OK):
        raise AssertionError(f"KVTIER_BIN_DIR is set and has no program {path}")
    return str(path)


def need_root():
    """Skips the test without root: some rules are about ownership, which only root can set up."""
    if os.geteuid() != 0:
        raise unittest.SkipTest("needs root, to give files to another user")


def run(*command, **kwargs):
    """Runs a command to its end and returns the CompletedProcess, output as text; the caller judges it."""
    return subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, **kwargs)
