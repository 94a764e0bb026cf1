"""pydensecrf's interface: ``from relaxcrf.compat.pydensecrf import densecrf as dcrf, utils``.

To keep ``import pydensecrf`` itself working, call `install` once before it.
"""

import importlib
import sys


def install() -> None:
    """Makes ``import pydensecrf.densecrf`` and its siblings find these modules in this process."""
    sys.modules["pydensecrf"] = sys.modules[__name__]
    for name in ("densecrf", "utils", "eigen"):
        module = importlib.import_module(f"{__name__}.{name}")
        sys.modules[f"pydensecrf.{name}"] = module
        setattr(sys.modules[__name__], name, module)
