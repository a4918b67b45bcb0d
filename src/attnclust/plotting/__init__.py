"""Pictures, in scikit-learn's Display convention; matplotlib is loaded when one is drawn."""

from attnclust.plotting.cluster_map import ClusterMapDisplay
from attnclust.plotting.confusion import ConfusionDisplay
from attnclust.plotting.convergence import ConvergenceDisplay
from attnclust.plotting.quantized import QuantizationDisplay
from attnclust.plotting.reliability import ReliabilityDisplay
from attnclust.plotting.similarity import HeadSimilarityDisplay
from attnclust.plotting.spectrum import SpectrumDisplay
from attnclust.plotting.style import COLOURS, MARKERS, MAX_POINTS

__all__ = [
    "COLOURS",
    "MARKERS",
    "MAX_POINTS",
    "ClusterMapDisplay",
    "ConfusionDisplay",
    "ConvergenceDisplay",
    "HeadSimilarityDisplay",
    "QuantizationDisplay",
    "ReliabilityDisplay",
    "SpectrumDisplay",
]
