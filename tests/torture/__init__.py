"""Every fault that docs/reliability.md promises to survive, tried: python -m tests.torture."""
