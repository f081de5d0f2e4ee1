"""Commands that serve this repository alone: its documents, its outside checks, its ledger."""
