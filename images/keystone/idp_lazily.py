# At the end of keystone/federation/__init__.py.

import importlib.util
import sys


def _lazily(name):
    """The module, which is loaded when something of it is asked for."""
    spec = importlib.util.find_spec(name)
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


idp = _lazily("keystone.federation.idp")
