"""First on PYTHONPATH, this has the package imported from the next folder there.

The finder of an editable installation would win over PYTHONPATH, in child processes too.
"""

import sys

sys.meta_path[:] = [
    finder for finder in sys.meta_path if "editable" not in type(finder).__module__
]
