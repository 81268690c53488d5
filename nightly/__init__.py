"""Attacks that take hours: `python -m nightly` runs them piece by piece, and writes a report."""
