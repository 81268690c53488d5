"""Configuration of the documentation; ``make docs`` builds it, and every warning is an error."""

from __future__ import annotations

import os
import sys
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_extensions"))
os.environ.setdefault("STOCHADMM_PROGRESS", "0")

project = "stochadmm"
author = "The stochadmm developers"
copyright = "the stochadmm developers, BSD 3-Clause"
version = release = installed("stochadmm")

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "sphinx-mathjax-offline",  # formulas without a network
    "estimator_pictures",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "gallery/README.rst", "reproduction/**"]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
suppress_warnings = [
    "config.cache",  # sphinx-gallery's sorting class cannot be pickled; nothing is lost by it
]

templates_path = ["_templates"]
autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
# No network is needed to build: names of other packages are linked only where inventories are.
intersphinx_mapping: dict[str, tuple[str, str | None]] = {}

html_theme = "pydata_sphinx_theme"
html_title = "stochadmm"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_extra_path = ["reproduction/report.html"]
html_show_sourcelink = False
html_context = {"default_mode": "auto"}
html_theme_options = {
    "navbar_align": "left",
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": []}

sphinx_gallery_conf = {
    "examples_dirs": ["../examples/gallery"],
    "gallery_dirs": ["gallery"],
    "filename_pattern": r"plot_",
    "within_subsection_order": "gallery_order.Order",
    "remove_config_comments": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 0,
    "matplotlib_animations": False,
    "image_srcset": ["2x"],
    "abort_on_example_error": True,
    "reference_url": {"stochadmm": None},
}


def _report_opens(app: Any, docname: str, source: list[str]) -> None:
    """Link to the report of ``html_extra_path``: it opens, other files are downloaded."""
    if docname == "reproduction":
        link, page = "[The full report](reproduction/report.html)", Path(html_extra_path[0]).name
        assert link in source[0]
        source[0] = source[0].replace(link, f'<a href="{page}">The full report</a>')


def setup(app: Any) -> None:
    """Connect what the pages need."""
    app.connect("source-read", _report_opens)
