"""The documentation site: what Sphinx is told.

The guides are Markdown files that are read in the repository as well; `ext/` holds what turns them
and the commands into pages. Comes in: this folder, `examples/`, the installed package. Goes out:
HTML that needs no network to be read.
"""

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from ext import reference  # noqa: E402

import carvegbm  # noqa: E402

project = "carvegbm"
author = "The carvegbm developers"
copyright = f"2026, {author}"  # noqa: A001
release = carvegbm.__version__
version = ".".join(release.split(".")[:2])

extensions = [
    "ext.commands",
    "ext.links",
    "ext.mathml",
    "ext.reference",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
exclude_patterns = ["gallery/*.ipynb", "sg_execution_times.rst", "gallery/sg_execution_times.rst"]
templates_path = ["_templates"]

# Guides. Blocks without a language are commands or what they print, not Python.
highlight_language = "none"
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
myst_links_external_new_tab = False

# Formulas. MathJax, Sphinx's default, comes from another server, so that a reader without a network
# sees TeX; images need a LaTeX where the site is built. Browsers draw MathML themselves, and
# docutils, which Sphinx brings, writes it: see ext/mathml.py.
html_math_renderer = "mathml"

# Reference.
default_role = "py:obj"  # `status` in a docstring is a link where there is something of this name
nitpicky = True
nitpick_ignore_regex = [("py:obj", r".*")]  # … and not where it is a parameter
add_module_names = False
toc_object_entries_show_parents = "hide"
autosummary_generate = True
autosummary_filename_map = reference.file_names()
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # docstrings say types in words
autodoc_class_signature = "mixed"
# Spark is half a gigabyte and wants Java; the reference of carvegbm.spark needs neither.
autodoc_mock_imports = ["pyspark"]
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
numpydoc_class_members_toctree = False

# Gallery: every example runs when the site is built, and one that fails fails the build.
# `-D sphinx_gallery_conf.…` cannot be said on the command line; `-D plot_gallery=0` shows the
# examples without running them, and CARVEGBM_EXAMPLES is a pattern of those that run.
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": os.environ.get("CARVEGBM_EXAMPLES", r"\.py$"),
    "ignore_pattern": r"__init__\.py|/_",
    "within_subsection_order": "ext.gallery.ByStory",
    "doc_module": ("carvegbm",),
    "backreferences_dir": "reference/backreferences",
    "inspect_global_variables": False,
    "reference_url": {"carvegbm": None},
    "remove_config_comments": True,
    "abort_on_example_error": False,
    "only_warn_on_example_error": True,  # and -W makes an error of it
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 10,
    "copyfile_regex": r"",
}

# Looks.
MARK = "_static/mark.svg"
html_theme = "pydata_sphinx_theme"
html_title = "carvegbm"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = MARK
html_context = {"default_mode": "auto"}  # light or dark as the reader's system has it
html_copy_source = False
html_show_sourcelink = False
html_sidebars = {
    "index": [],
    "mathematics": [],
    "getting-started": [],
}
html_theme_options = {
    "logo": {
        "text": "carvegbm",
        "image_light": "_static/mark.svg",
        "image_dark": "_static/mark.svg",
    },
    "navbar_align": "left",
    "navbar_center": ["navbar-nav"],
    "navbar_end": ["this-version", "theme-switcher"],
    "navbar_persistent": ["search-button"],
    "header_links_before_dropdown": 8,
    "show_prev_next": True,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_center": [],
    "footer_end": ["theme-version"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "back_to_top_button": False,
}

# Versions. Where the site is published, /dev/, /0.1/ and /stable/ lie side by side, and
# /switcher.json lists them (tools/publish_site.py). The list is fetched by a script, which a page
# that is opened as a file may not do: so there is a switcher only where CARVEGBM_SITE, the address
# of the folder above, says that the site is to be published.
site = os.environ.get("CARVEGBM_SITE", "").rstrip("/")
if site:
    html_baseurl = f"{site}/stable/"
    html_theme_options["navbar_end"] = ["version-switcher", "theme-switcher"]
    html_theme_options["switcher"] = {
        "json_url": f"{site}/switcher.json",
        "version_match": os.environ.get("CARVEGBM_SITE_VERSION", "dev"),
    }
    html_theme_options["show_version_warning_banner"] = True
    html_theme_options["check_switcher"] = False  # it may not be there before the first release
