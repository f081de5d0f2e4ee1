"""What a run has learnt, to be looked at: reads run directories only, never imports training.

ising.py     do CTRL's clusters find the models of the Ising task?
"""
