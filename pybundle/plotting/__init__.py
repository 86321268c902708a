"""Pictures of runs and models by scikit-learn's Display convention; matplotlib is imported with the first plot."""

from .convergence import ConvergenceDisplay, plot_convergence
from .kernel_weights import KernelWeightsDisplay
from .parse_tree import ParseTreeDisplay
from .path import PathDisplay
from .segmentation import SegmentationDisplay
from .transitions import TransitionDisplay
from .weight_images import WeightImagesDisplay

__all__ = [
    "ConvergenceDisplay", "KernelWeightsDisplay", "ParseTreeDisplay", "PathDisplay", "SegmentationDisplay",
    "TransitionDisplay", "WeightImagesDisplay", "plot_convergence",
]
