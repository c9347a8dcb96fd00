"""What ./weft test is made of: suites, when each runs, and which results are kept."""
