"""The same problem in other forms: without its constraint, with its columns in other units."""
