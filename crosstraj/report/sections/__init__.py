"""The sections of a report, one file each, named like the section.

A section is a function from a comparison of runs to blocks of text and tables; `page.py` above puts
them in order. Statistics are in report, never here.
"""
