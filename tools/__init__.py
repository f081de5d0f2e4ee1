"""Commands that serve this repository alone: its documents, checks, comparisons and counts."""
