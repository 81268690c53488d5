"""Methods that ``auto`` may choose, and ``auto`` itself."""
