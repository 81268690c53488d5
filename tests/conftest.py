"""Tests that need the extension are skipped, with the reason, where there is none."""

import signal

import pytest

from stochadmm.kernels import extension

# a shell's jobs in the background ignore Ctrl-C, which some tests send to themselves
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items):
    if extension.available():
        return
    skipped = pytest.mark.skip(reason=f"needs compiled kernels: {extension.chosen().reason}")
    for item in items:
        engine = item.callspec.params.get("engine") if hasattr(item, "callspec") else None
        if item.get_closest_marker("compiled") or engine == "compiled":
            item.add_marker(skipped)
