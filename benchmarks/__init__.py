"""Speed against the machine's limit and against peers: `make bench`, `make bench-full`."""
