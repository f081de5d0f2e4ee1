"""What a run has learnt, to be looked at: reads run directories only, never imports training.

play.py      the frozen policy on seen and unseen levels -> one fixed set of views
embed.py     that set as some weights see it: vectors, clusters, codes
measures.py  figures about it, all by scikit-learn and scipy; layout.py: the map
result.py    the records of an analysis, which its tables and figures read
study.py     `crosstraj analyse`: table, figures, summary; temperatures.py: several runs
explore.py   `crosstraj explore`: one HTML page
probes/      `crosstraj probe`: how much of an expert's behaviour features tell
ising_models.py  do CTRL's clusters find the models of the Ising task?
"""
