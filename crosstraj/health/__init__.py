"""Is a representation alive, and what is it about? Figures, their words and their bounds.

Start with `glossary.py`: every figure that a run records, what it is called, and what it is when
all is well; methods, displays, curves and tables take their words and bounds from it.
`instruments.py` measures what codes are about; `complaints.py` says in a sentence what is wrong
with a representation. May import: nn.
"""
