"""Paths and URLs below the data roots: what jobs may read. Used by ranks and by the launcher of scripts.

Standard library only. A link inside a root that leads out of it is not followed.
"""

import os
import re
from collections.abc import Iterable
from pathlib import Path

LOCAL_SCHEMES = ("file://", "local://")
FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")  # where Debian's package puts it
# A server or a driver may read these as a step up, a query, or a second filesystem around the first.
_AMBIGUOUS_IN_URL = re.compile(r"%2e|%2f|%5c|\\|::|[?#]", re.IGNORECASE)


def path_below(source: str, roots: Iterable[str]) -> str | None:
    """The real path of what `source` names below one of these folders. None: it is not there, or leads out of them.

    A relative path is looked for below each root.
    """
    for root in roots:
        path = os.path.realpath(Path(root, source))
        if os.path.exists(path) and is_in(path, root):
            return path
    return None


def folders_of(roots: Iterable[str]) -> list[str]:
    """The roots that are folders of this host, without URLs of other places."""
    folders = [path_of(root) if root.startswith(LOCAL_SCHEMES) else root for root in roots]
    return [folder for folder in folders if "://" not in folder]


def is_in(path: str, folder: str) -> bool:
    """Whether a path is in a folder, all links followed."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def path_of(url: str) -> str:
    """The path that a URL of this host (`LOCAL_SCHEMES`) means."""
    return "/" + url.partition("://")[2].strip("/")


def fashion_mnist(roots: Iterable[str]) -> Path | None:
    """The folder of Fashion-MNIST: `fashion-mnist` below a data root, or that of Debian's package."""
    folders = [*(Path(root, "fashion-mnist") for root in roots if "://" not in root), FASHION_MNIST]
    return next((folder for folder in folders if folder.is_dir()), None)


def is_plain_url(url: str) -> bool:
    """Whether all servers and drivers read a URL in the same way: it has no steps up, escapes, query or user."""
    host, *parts = url.partition("://")[2].removesuffix("/").split("/")
    has_steps = not {".", ".."}.isdisjoint([host, *parts])
    return not (_AMBIGUOUS_IN_URL.search(url) or "@" in host or has_steps or "" in parts)
