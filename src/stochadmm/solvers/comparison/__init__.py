"""Methods of the literature, kept to compare with."""
