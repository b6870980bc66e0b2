"""Python runs this when it starts, where this folder's link is on its path: in what a script starts.

It then runs the file of the same name that it hides, if there is one.
"""

import importlib.util
import os
import sys
from importlib.machinery import PathFinder

import hora.hooks

hora.hooks.install()
_own = os.path.dirname(__file__)
_spec = PathFinder.find_spec(__name__, [folder for folder in sys.path if folder != _own])
if _spec is not None and _spec.loader is not None:
    _spec.loader.exec_module(importlib.util.module_from_spec(_spec))
