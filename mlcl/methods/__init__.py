"""One file, one family of methods; importing this package registers them all.

The modules are found by name, so a new method touches no other file.
"""

import importlib
import pkgutil

for module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{module.name}")
