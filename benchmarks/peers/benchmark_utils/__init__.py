"""What the files of the benchmark share; ``tasks`` needs nothing but stochadmm."""

from .tasks import Optimum, Task, generated, real

__all__ = ["Optimum", "Task", "generated", "real"]
