"""Gives access to stored results from Python, for example in a notebook.

import cudnn_sweep.analysis as sweep_analysis

results = sweep_analysis.open_results("results")
results.query("helps_or_hurts", min_effect=0.05).to_pandas()
"""

from cudnn_sweep.analysis.errors import AnalysisError
from cudnn_sweep.analysis.results.results import Results, open_results

__all__ = ["AnalysisError", "Results", "open_results"]
