#!/usr/bin/env python3
"""NVIDIA's straggler detector beside ours; NVRX_SOURCE names a checkout of its source, and without it there is nothing
to do."""

import argparse
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

SOURCE = os.environ.get("NVRX_SOURCE", "")
ANALYZER = ""


@unittest.skipUnless(SOURCE, "NVRX_SOURCE is not set: no source of NVIDIA's resiliency extension")
class Detectors(unittest.TestCase):
    def test_a_slow_gpu_is_named_by_both(self):
        import straggler_detector
        said = straggler_detector.compare(SOURCE, ANALYZER, "straggler_timed", 5000)
        self.assertEqual((said["ours"], said["theirs"]), (said["truth"], said["truth"]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    arguments, rest = parser.parse_known_args()
    ANALYZER = str(arguments.build / "analyzer" / "titan-analyze")
    unittest.main(argv=[sys.argv[0], "-v", *rest])
