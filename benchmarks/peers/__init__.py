"""Our host and our diagnostics beside their peers, in one run, on one machine."""
