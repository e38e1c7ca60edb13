"""Helpers for self-contained pages: a content security policy, and JSON that cannot break out of its script tag."""

import base64
import hashlib
import json
from collections.abc import Sequence
from typing import Any


def policy(style: str, scripts: Sequence[str], **more: str) -> str:
    """The content security policy: only the page's own scripts and styles, by hash, and what `more` allows."""
    hashes = " ".join(f"'sha256-{digest(script)}'" for script in scripts)
    allowed = {
        "default-src": "'none'",
        "script-src": " ".join([hashes, *filter(None, [more.pop("script_src", "")])]),
        "style-src": f"'sha256-{digest(style)}'",
        "img-src": "data:",
        "connect-src": "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
        **{name.replace("_", "-"): source for name, source in more.items()},
    }
    return "; ".join(f"{name} {source}" for name, source in allowed.items())


def digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def script_json(value: Any) -> str:
    """JSON that cannot close its script tag, whatever its strings contain.

    >>> script_json("</script>")
    '"\\\\u003c/script\\\\u003e"'
    """
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
