"""The documentation site: `make docs` builds it from these pages into build/docs."""

from importlib.metadata import version as installed_version
from typing import Any

project = "headway"
author = "the headway contributors"
version = release = installed_version("headway")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["results/figures/**", "results/proofs/**", "tools/**", "figures/**"]
root_doc = "index"

myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]

autodoc_typehints = "description"
autodoc_member_order = "bysource"

default_role = "code"
html_theme = "furo"
html_title = "headway"
html_static_path = ["_static"]
html_js_files = ["keyboard.js"]
html_css_files = ["keyboard.css"]
html_copy_source = False
html_show_sphinx = False
copybutton_prompt_text = r">>> |\$ "
copybutton_prompt_is_regexp = True


def name_level_of_captions(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Captions of the table of contents are headings to a screen reader, which asks for their level."""
    tree = str(context.get("furo_navigation_tree", ""))
    context["furo_navigation_tree"] = tree.replace('role="heading"', 'role="heading" aria-level="2"')


def setup(app: Any) -> None:
    app.connect("html-page-context", name_level_of_captions, priority=900)  # after the theme has made the tree
