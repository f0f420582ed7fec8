"""An extension of Griffe: the section "Example:" of our docstrings is what Griffe calls "Examples:"."""

import re
from typing import Any

from griffe import Extension, Object

_HEADING = re.compile(r"^Example:$", flags=re.MULTILINE)


class DocstringExamples(Extension):
    """Rename the section, so that doctests are shown as code and not as text."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        """Change the docstring of an object that was just read."""
        if obj.docstring is not None:
            obj.docstring.value = _HEADING.sub("Examples:", obj.docstring.value)
