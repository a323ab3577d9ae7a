#!/usr/bin/env python3
"""titan-analyze report without a browser: its data, what becomes of hostile names, and what it says where it has no
page. tests/page looks at the page itself."""

import html.parser
import json
import sys

import harness

sys.path.insert(0, str(harness.ROOT / "tests" / "synth"))
import fr_files  # noqa: E402

# The smallest page that titan-analyze fills.
PAGE = ("<!doctype html><noscript><pre>@REPORT_TEXT@</pre></noscript>"
        "<script type='application/json' id='data'>@REPORT_DATA@</script>")
SECTIONS = {"ranks", "calls", "waits", "around", "lateness", "durations", "sizes", "steps", "metrics", "stacks",
            "goodput", "health", "settings"}


class Elements(html.parser.HTMLParser):
    """Element names of a page, and the texts of its elements."""

    def __init__(self, page):
        super().__init__()
        self.names, self.texts = [], {}
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)

    def handle_data(self, data):
        self.texts.setdefault(self.names[-1], []).append(data)


class Report(harness.Case):
    def report(self, *options, status=harness.HEALTHY):
        done = self.place.tool("titan-analyze", "report", self.place.dumps, "--no-rings", *options)
        self.assertEqual(done.status, status, done.stdout + done.stderr)
        return done

    def data(self):
        return json.loads(self.report("--json").stdout)

    def synth(self, *options):
        done = self.place.run([harness.BUILD / "tests" / "synth" / "titan-synth", self.place.dumps, *options],
                              self.place.env(preload=False))
        self.assertEqual(done.status, 0, done.stderr)

    def filled(self):
        """The smallest page, filled: its elements and its data."""
        (self.place.path / "page.html").write_text(PAGE)
        self.report("--page", self.place.path / "page.html", "-o", self.place.path / "out.html")
        text = (self.place.path / "out.html").read_text()
        elements = Elements(text)
        return elements, json.loads("".join(elements.texts["script"]))

    def test_a_late_rank(self):
        self.synth("--timed", "--ranks", "8", "--hosts", "2", "--steps", "60", "--fault", "span", "--rank", "5")
        data = self.data()
        self.assertEqual(data["schema"], 2)
        self.assertLessEqual(SECTIONS, set(data))
        finding = data["findings"][0]
        self.assertEqual((finding["kind"], finding["ranks"]), ("straggler", "5"))
        late = {row["rank"]: row["cost_ns"] for row in data["lateness"]["rows"]}
        told = self.place.tool("titan-analyze", "stragglers", self.place.dumps, "--json", "--no-rings")
        for row in json.loads(told.stdout)["ranks"]:
            self.assertAlmostEqual(late[row["rank"]] * 1e-6, row["cost_ms_per_step"], places=5)
        self.assertEqual(max(late, key=late.get), 5)
        self.assertEqual([row[0] for row in data["ranks"]["rows"]], list(range(8)))
        self.assertEqual(len(data["calls"]["rows"]), 1, "all ranks are equally far")
        self.assertEqual(data["calls"]["rows"][0]["ranks"], "0-7")
        steps = data["steps"]
        self.assertEqual({len(steps[key]) for key in ("steps", "mean_ns", "longest_ns")}, {len(steps["steps"])})
        self.assertIn("span data", [part["name"] for part in steps["parts"]])
        sizes = [row["up_to_bytes"] for row in data["sizes"]["rows"]]
        self.assertTrue(sizes and all(size & (size - 1) == 0 and size > 0 for size in sizes), sizes)

    def test_settings_that_differ(self):
        self.synth("--ranks", "8", "--fault", "stuck", "--odd-setting", "3")
        rows = [row for row in self.data()["settings"]["rows"] if row["name"] == "NCCL_ALGO"]
        self.assertEqual([(row["value"], row["ranks"]) for row in rows], [("Ring", "0-2,4-7"), ("Tree", "3")])

    def test_a_hang_is_folded(self):
        self.synth("--ranks", "16", "--fault", "sleep", "--rank", "5", "--large", "100")
        data = self.data()
        self.assertEqual([row["ranks"] for row in data["calls"]["rows"]], ["5", "0-4,6-15"])
        node, = data["waits"]["nodes"]
        self.assertEqual(node["waiting"], "0-4,6-15")
        self.assertEqual([(absent["ranks"], absent["free"]) for absent in node["absent"]], [("5", True)])
        self.assertIn("none", data["metrics"])

    def test_missing_ranks_are_said(self):
        job = fr_files.hostile_job()
        job.write(self.place.dumps, without={3})
        data = self.data()
        self.assertEqual(data["run"]["missing"], "3")
        self.assertTrue(any(gap["ranks"] == "3" for gap in data["gaps"]), data["gaps"])
        self.assertIn("none", data["stacks"])
        cells = {row["ranks"]: row["cells"][data["calls"]["columns"].index("default_pg")][0]
                 for row in data["calls"]["rows"]}
        self.assertEqual(cells, {"0-1": 4, "2": 3}, "numbers as PyTorch counts them, from 1")
        node, = data["waits"]["nodes"]
        self.assertEqual({absent["ranks"]: absent["unseen"] for absent in node["absent"]}, {"2": False, "3": True})

    def test_names_stay_text(self):
        fr_files.hostile_job().write(self.place.dumps)
        elements, data = self.filled()
        self.assertEqual(elements.names, ["noscript", "pre", "script"])
        self.assertIn(fr_files.HOSTILE_NAME[:20], json.dumps(data, ensure_ascii=False))
        self.assertIn("VERDICT", "".join(elements.texts["pre"]))

    def test_the_file_is_private(self):
        self.synth("--ranks", "4", "--fault", "none")
        self.filled()
        self.assertEqual((self.place.path / "out.html").stat().st_mode & 0o777, 0o600)

    def test_not_a_page(self):
        self.synth("--ranks", "4", "--fault", "none")
        other = self.place.path / "other.html"
        other.write_text("<p>no place</p>")
        done = self.report("--page", other, "-o", self.place.path / "out.html", status=harness.UNUSABLE)
        self.assertIn("other.html: is no page of titantrace", done.stderr)
        self.assertFalse((self.place.path / "out.html").exists())

    def test_the_built_in_page_or_how_to_get_it(self):
        self.synth("--ranks", "4", "--fault", "none")
        options = json.loads((harness.BUILD / "meson-info" / "intro-buildoptions.json").read_text())
        built_in = next(option["value"] for option in options if option["name"] == "page")
        out = self.place.path / "out.html"
        done = self.report("-o", out, status=harness.HEALTHY if built_in else harness.UNUSABLE)
        self.assertEqual(out.exists(), bool(built_in))
        if not built_in:
            self.assertIn("./scripts/setup --page", done.stderr)


if __name__ == "__main__":
    harness.main()
