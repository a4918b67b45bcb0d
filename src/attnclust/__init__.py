"""Cluster vectors by attention heads.

The names below load when first used, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attnclust.estimators import AttentionClustering as AttentionClustering
    from attnclust.persistence import load_model as load_model
    from attnclust.persistence import save_model as save_model
    from attnclust.prompts import InContextAttention as InContextAttention
    from attnclust.prompts import InContextClustering as InContextClustering

__version__ = "0.1.0"

_HOMES = {
    "AttentionClustering": "estimators",
    "InContextAttention": "prompts",
    "InContextClustering": "prompts",
    "load_model": "persistence",
    "save_model": "persistence",
}
__all__ = [
    "AttentionClustering",
    "InContextAttention",
    "InContextClustering",
    "__version__",
    "load_model",
    "save_model",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
