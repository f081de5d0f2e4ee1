"""The site, for Sphinx: `make docs` builds it without a network, and a warning is an error."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # tools/site, which fills pages from the code

from crosstraj import __version__

project = "crosstraj"
author = "the authors of crosstraj"
copyright = "2026, the authors of crosstraj"
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton", "tools.site"]
exclude_patterns = ["*.in.md", "_build"]
nitpicky = False  # types of other packages have no page here

html_theme = "furo"
html_title = "crosstraj"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["enlarge.js"]
html_copy_source = False
html_show_sourcelink = False

highlight_language = "sh"  # what has no language is for a terminal

myst_enable_extensions = ["deflist", "colon_fence"]
myst_heading_anchors = 4  # links such as methods.md#situations
copybutton_prompt_text = "$ "

autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False  # those of torch are in another style
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_class_signature = "mixed"
add_module_names = False
