"""One run: the loop, what a point is worth, when to stop, what is returned, paths of strengths."""
