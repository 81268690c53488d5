"""What all packages use: protocols, checks at the border, files, clocks, fingerprints."""
