"""The first run that a person makes: trained, judged, and shown on one page (`crosstraj first`).

Start with `story.py` (what is found out), then `first_page.py` (how it is shown).
"""
