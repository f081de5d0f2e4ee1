"""What a run has learnt, to be looked at: reads run directories only, never imports training.

play.py      the frozen policy on seen and unseen levels -> one fixed set of views
embed.py     that set as some weights see it: vectors, clusters, codes
measures.py  figures about it, all by scikit-learn and scipy; layout.py: the map
study.py     `crosstraj analyse`; result.py: its records; table.py, plots.py, summary.py
explore.py   `crosstraj explore`: one HTML page
probes/      `crosstraj probe`: how much of an expert's behaviour features tell
margins/     `crosstraj margins`: how far views are from leaving their cluster
check_method.py  `crosstraj check`; ising_models.py: do clusters find the task's models?
"""
