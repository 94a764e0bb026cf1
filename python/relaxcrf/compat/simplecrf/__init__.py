"""SimpleCRF's dense CRFs: ``from relaxcrf.compat.simplecrf import densecrf, densecrf3d``.

The module names ``denseCRF`` and ``denseCRF3D`` are here too.
"""

from . import denseCRF, denseCRF3D
from .denseCRF import densecrf
from .denseCRF3D import densecrf3d

__all__ = ["denseCRF", "denseCRF3D", "densecrf", "densecrf3d"]
