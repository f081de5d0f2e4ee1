"""The policy updates."""
