"""A hook of MkDocs: what a page links to outside of ``docs`` (evidence, recipes, the notebook) goes along."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

LEADS_OUT = re.compile(r"\]\(\.\./([^)#]+)\)")
FOLDER = "repository"  # of the site


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Take the files along."""
    root = Path(config.docs_dir).parent
    for page in list(files.documentation_pages()):
        for name in LEADS_OUT.findall(page.content_string):
            place = f"{FOLDER}/{name}"
            if (root / name).is_file() and files.get_file_from_path(place) is None:
                files.append(File.generated(config, place, abs_src_path=str(root / name)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Let the links lead to them."""
    return LEADS_OUT.sub(rf"]({FOLDER}/\1)", markdown)
