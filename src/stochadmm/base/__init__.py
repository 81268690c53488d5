"""What every room stands on: protocols, checks at the border, files, clocks, fingerprints."""
