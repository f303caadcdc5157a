"""Where results lie if the command line does not say."""

from pathlib import Path


def results_of_the_launch_file() -> str:
    """Of the launch file that `sweep launch` takes where none is named."""
    from cudnn_sweep.cluster.strict_yaml import check_part, read_document
    from cudnn_sweep.orchestrator.spec import DEFAULT_RESULTS, SweepSpec

    file = Path("cluster.yaml")
    if not file.exists():
        return DEFAULT_RESULTS
    return check_part(read_document(file), SweepSpec, ("metadata", "sweep")).results
