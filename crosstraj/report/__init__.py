"""One engine for reports and tables of experiments: runs -> comparison -> statistics -> page.

reading.py       run directories: what was trained, and what it has reached up to its budget
comparison.py    which runs stand beside each other or are averaged; labels.py: a variant's name
statistics.py    means, spreads and intervals; permutation.py, split_gains.py: of two variants
cells.py         numbers as cells; document.py: blocks as Markdown, HTML, LaTeX and JSON
drawing.py       what all pictures share; comparison_plots.py: of variants; curves.py: of one run
sections/        blocks of a report; page.py: `crosstraj report`, the place to start

May import everything up to train; analysis, experiments and cli build on it.
"""
