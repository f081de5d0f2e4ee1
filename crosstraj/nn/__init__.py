"""Networks and the mathematics that methods share; the lowest room, which knows of no other.

Start with `ops.py` (pure functions of tensors: Sinkhorn, contrast, ranks), then `encoders.py` (from
frames to features) and `heads.py` (what stands on features). `native.py` runs an encoder's
convolutions in C. May import: errors.
"""
