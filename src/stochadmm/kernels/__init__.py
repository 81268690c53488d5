"""Compiled inner loops. Imported on first use, never with the package."""
