"""The documentation site: `make docs` builds it from these pages into build/docs."""

from importlib.metadata import version as installed_version

project = "headway"
author = "the headway contributors"
version = release = installed_version("headway")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["results/**", "tools/**", "figures/**"]
root_doc = "index"

myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]

autodoc_typehints = "description"
autodoc_member_order = "bysource"

default_role = "code"
html_theme = "furo"
html_title = "headway"
html_static_path: list[str] = []
html_copy_source = False
html_show_sphinx = False
copybutton_prompt_text = r">>> |\$ "
copybutton_prompt_is_regexp = True
