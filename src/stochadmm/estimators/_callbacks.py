"""A thin bridge to the callbacks of scikit-learn, where its version has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # before scikit-learn 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Nothing to support."""

    def with_callbacks(method: Any) -> Any:
        """Return the method as it is."""
        return method


__all__ = ["CallbackSupportMixin", "Epochs", "with_callbacks"]


class Epochs:
    """Reports every epoch of a solver as a task of the fit; a callback may ask to stop.

    ``attributes(state)`` returns what makes the estimator usable as it is after an epoch.
    """

    def __init__(
        self, estimator: Any, X: Any, y: Any, attributes: Callable[[Any], dict[str, Any]]
    ) -> None:
        self.estimator, self.X, self.y, self.attributes = estimator, X, y, attributes
        begin = getattr(estimator, "_init_callback_context", None)
        watched = bool(getattr(estimator, "_skl_callbacks", None))
        self.context = begin(max_subtasks=None) if begin is not None and watched else None
        if self.context is not None:
            self.context.call_on_fit_task_begin(estimator=estimator, X=X, y=y)

    @property
    def watched(self) -> bool:
        """Whether anybody listens."""
        return self.context is not None

    def __call__(self, record: Any, state: Any) -> bool:
        """Report one epoch; true asks to stop."""
        if self.context is None:
            return False
        task = self.context.subcontext(task_name="epoch")
        task.call_on_fit_task_begin(estimator=self.estimator, X=self.X, y=self.y)
        return bool(
            task.call_on_fit_task_end(
                estimator=self.estimator,
                X=self.X,
                y=self.y,
                reconstruction_attributes=self.attributes(state),
            )
        )

    def close(self) -> None:
        """Report the end of the fit."""
        if self.context is not None:
            self.context.call_on_fit_task_end(
                estimator=self.estimator, X=self.X, y=self.y, reconstruction_attributes={}
            )
