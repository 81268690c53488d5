"""The mean loss over rows in memory: blocks, mini-batches, gradient estimators, metrics."""
