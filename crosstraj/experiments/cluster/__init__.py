"""The runs of an experiment on the machines of a Ray cluster, each a process of our command line.

Start with `driver.py` and `session.py` (hand out the runs and wait for them), then
`node_task.py` (one run on a node).
`owners.py` sees to it that a run has one owner at a time, `shelf.py` and `parcel.py` keep run
directories where no disk is shared, `needs.py` says what a run asks of a node. What is Ray's own is
in `actors.py`, `node_task.py` and `session.py`.
"""
