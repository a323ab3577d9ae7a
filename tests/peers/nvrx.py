"""The Flight Recorder analyzer of NVIDIA's resiliency extension, as its own service calls it: without a language
model."""

import os
import re
import subprocess
import sys

MODULE = "nvidia_resiliency_ext/attribution/trace_analyzer/fr_attribution.py"
source = ""


def start(path: str):
    """`path`: a checkout or an installed tree."""
    global source, fr_attribution
    source = next((place for place in (os.path.join(path, "src"), path)
                   if os.path.exists(os.path.join(place, MODULE))), "")
    if not source:
        sys.exit(f"{path} has neither {MODULE} nor src/{MODULE}")
    sys.path.insert(0, source)
    from nvidia_resiliency_ext.attribution.trace_analyzer import fr_attribution


def version() -> str:
    described = subprocess.run(["git", "-C", source, "describe", "--tags", "--always"], capture_output=True, text=True,
                               check=False)
    return described.stdout.strip() or "unknown"


def ask(directory: str) -> dict:
    analyzer = fr_attribution.CollectiveAnalyzer({
        "fr_path": directory, "pattern": "*", "model": None, "verbose": False, "health_check": False,
        "llm_analyze": False,
        "threshold": None})
    loop = analyzer._loop
    table = loop.run_until_complete(analyzer.preprocess_FR_dumps())
    result, _ = loop.run_until_complete(analyzer.print_output(table))
    ranks = [int(rank) for rank in re.findall(r"\d+", result["hanging_ranks"])]
    return {"named": [ranks] if ranks else []}
