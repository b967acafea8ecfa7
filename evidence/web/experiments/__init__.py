"""Pages of experiments: their list, one of them, comparisons, cases, suites and trials."""
