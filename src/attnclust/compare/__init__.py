"""The same rows through attention and through the methods that it stands beside."""

from attnclust.compare.comparison import Comparison, Row, compare

__all__ = ["Comparison", "Row", "compare"]
