"""What scripts/ablate switches off."""
import importlib.machinery
import importlib.util
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
loader = importlib.machinery.SourceFileLoader("ablate", str(ROOT / "scripts" / "ablate"))
ablate = importlib.util.module_from_spec(importlib.util.spec_from_loader("ablate", loader))
sys.dont_write_bytecode = True
loader.exec_module(ablate)

SOURCE = """namespace a {
constexpr double kShare = 0.5;  // of all
constexpr int64_t kLong_ns = 30 * kSecond;
constexpr Table kTable = {1, 2};

bool is_late(const Run& run) { return run.late; }

void doubt(const Run& run,
           Finding& finding) {
    if (is_late(run)) {
        finding.confidence = lower(finding.confidence);
    }
}
}  // namespace a
"""


class Changes(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.path = pathlib.Path(holder.name, "rule.cpp")
        self.path.write_text(SOURCE)

    def test_each_function_returns_at_once(self):
        changes = list(ablate.functions_off(self.path))
        self.assertEqual([(change.name, change.line) for change in changes], [("is_late", 6), ("doubt", 9)])
        self.assertIn("is_late(const Run& run) { return {};  return run.late; }", changes[0].text)
        self.assertIn("Finding& finding) { return; \n    if", changes[1].text)

    def test_each_named_number_is_turned_both_ways(self):
        changes = list(ablate.limits_turned(self.path))
        self.assertEqual([(change.name, change.how) for change in changes],
                         [("kShare", " / 1000"), ("kShare", " * 1000"),
                          ("kLong_ns", " / 1000"), ("kLong_ns", " * 1000")])
        self.assertIn("constexpr double kShare = (0.5) / 1000;  // of all", changes[0].text)
        self.assertIn("constexpr int64_t kLong_ns = (30 * kSecond) * 1000LL;", changes[3].text)

    def test_what_nothing_noticed_is_said(self):
        nothing = {"better": [], "worse": [], "other": [], "failing_tests": []}
        self.assertEqual(ablate.describe(nothing), "NOTHING CHANGED")
        self.assertEqual(ablate.describe({**nothing, "worse": ["a.1", "b.2"]}), "-2 (a.1, b.2)")
        self.assertEqual(ablate.describe({**nothing, "failing_tests": ablate.UNIT_TESTS}), "unit tests fail")
        self.assertEqual(ablate.describe({**nothing, "failing_tests": ["test_metrics"]}), "test_metrics fails")
        self.assertEqual(ablate.describe(None), "does not compile")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
