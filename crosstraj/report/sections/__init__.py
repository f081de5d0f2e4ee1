"""The sections of a report: from a comparison of runs to blocks of text and tables."""
