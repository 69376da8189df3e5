"""An extension of griffe: docstrings as they are written here, for the API reference.

Fields are described by the comment behind them, examples stand among the text, references are Sphinx's roles,
and a section "Returns" has no type, since the signature has it.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

COMMENT = re.compile(r"\s#\s+(?!noqa|type:)(.+)$")
ROLE = re.compile(r":(?:attr|class|func|meth|mod):`~?([^`]+)`")
EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)
RETURNS = re.compile(r"(?<=Returns\n-------\n)\S.*(?:\n.+)*")


class Readable(griffe.Extension):
    """Makes docstrings what MkDocs expects."""

    def on_object(self, *, obj: griffe.Object, loader: griffe.GriffeLoader, **_: Any) -> None:
        """Rewrite one object's docstring, or give a field its comment."""
        if obj.is_attribute and obj.docstring is None and obj.lines:
            comment = COMMENT.search(obj.lines[-1])
            if comment:
                obj.docstring = griffe.Docstring(comment[1], parent=obj)
        if obj.docstring is not None:
            annotation = obj.returns if isinstance(obj, griffe.Function) else None
            obj.docstring.value = readable(obj.docstring.value, str(annotation or ""))


def readable(text: str, annotation: str) -> str:
    """The docstring with roles as code, examples fenced, and the signature's type in "Returns"."""
    text = ROLE.sub(r"`\1`", text)
    text = EXAMPLE.sub(r"```pycon\n\g<0>\n```", text)
    if annotation:
        text = RETURNS.sub(lambda found: f"{annotation}\n    " + found[0].replace("\n", "\n    "), text)
    return text
