"""Small dense matrices and threads."""
