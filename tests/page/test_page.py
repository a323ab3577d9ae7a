#!/usr/bin/env python3
"""The page of titan-analyze report in Chromium: that it shows what the data says, follows the pointer and the keyboard,
loads nothing, and executes nothing that a job is named.

    test_page.py --build DIR [unittest arguments]
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import browser

sys.path[:0] = [str(browser.ROOT / "tests" / name) for name in ("e2e", "synth")]
import fr_files  # noqa: E402
import harness  # noqa: E402

JOBS = {
    "hang": ["--ranks", "16", "--fault", "sleep", "--rank", "5", "--large", "100"],
    "late": ["--timed", "--ranks", "8", "--hosts", "2", "--steps", "60", "--fault", "span", "--rank", "5"],
    "dead": ["--ranks", "16", "--steps", "12", "--fault", "die", "--rank", "3"],
    "cycle": ["--random", "p2p_cycle", "--ranks", "8"],
    "nan": ["--ranks", "8", "--steps", "60", "--fault", "nan", "--rank", "3"],
    "hot": ["--ranks", "8", "--steps", "30", "--fault", "hot", "--rank", "3"],
    "healthy": ["--ranks", "8", "--steps", "12", "--fault", "none"],
    "mixed": ["--mixed"],
    "thousand": ["--ranks", "1024", "--fault", "sleep", "--rank", "641", "--large", "2000"],
    "thousand late": ["--timed", "--ranks", "1024", "--hosts", "128", "--steps", "40", "--fault", "span", "--rank",
                      "641"],
}
SECTIONS = 13
MOST_FIRST_ELEMENTS = 3_000  # of a first view, whatever the number of ranks
LEAST_CONTRAST = 4.5         # WCAG 2, AA

# The lightness of a colour of the page, and the contrast of two.
CONTRAST = """names => {
    const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
    const light = name => {
        canvas.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
        canvas.fillRect(0, 0, 1, 1);
        const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map(v => v / 255)
            .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    return names.map(([a, b]) => {
        const [low, high] = [light(a), light(b)].sort((x, y) => x - y);
        return (high + 0.05) / (low + 0.05);
    });
}"""
# The page scrolls to a section at once, and again two frames later, when what lies above it has its height.
SCROLLED = """() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() =>
    requestAnimationFrame(done))))"""
PAIRS = [(text, ground) for text in ("--text", "--quiet", "--link") for ground in ("--ground", "--raised")] + [
    ("--alarm", "--ground"), ("--alarm", "--alarm-ground"), ("--text", "--alarm-ground"), ("--quiet", "--alarm-ground"),
    ("--caution", "--caution-ground"), ("--quiet", "--caution-ground"), ("--good", "--good-ground")]


def sections_with_nothing(data):
    return [name for name, section in data.items() if isinstance(section, dict) and "none" in section]


def sections_of(data):
    """Those with content, and the one that says what is missing."""
    return SECTIONS - len(sections_with_nothing(data))


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.TemporaryDirectory(prefix="titan-page-")
        cls.reports = {}
        cls.opened = browser.browser()
        cls.browser = cls.opened.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.opened.__exit__(None, None, None)
        cls.place.cleanup()

    @classmethod
    def written(cls, name, dumps):
        into = pathlib.Path(cls.place.name) / f"{name}.html"
        done = subprocess.run([harness.BUILD / "analyzer" / "titan-analyze", "report", dumps, "--no-rings", "-o", into,
                               "--page", browser.ROOT / "page" / "dist" / "page.html"], capture_output=True, text=True,
                              check=False)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        return into

    def report(self, job):
        if job not in self.reports:
            dumps = pathlib.Path(self.place.name) / job
            subprocess.run([harness.BUILD / "tests" / "synth" / "titan-synth", dumps, *JOBS[job]], check=True,
                           capture_output=True)
            self.reports[job] = self.written(job, dumps)
        return self.reports[job]

    def assert_quiet(self, page):
        self.assertEqual(page.complaints, [])
        self.assertEqual([url for url in page.requests if not url.startswith("file:")], [])
        self.assertEqual(len(page.requests), 1)

    def assert_fits(self, page):
        """Nothing is wider than the screen; tables and graphs scroll by themselves."""
        self.assertLessEqual(page.tab.evaluate("document.documentElement.scrollWidth - innerWidth"), 0)

    def test_every_job_is_shown(self):
        for job in JOBS:
            with self.subTest(job), self.browser.page() as page:
                path = self.report(job)
                page.open(path)
                page.show_all()
                data = browser.data_of(path)
                self.assertEqual(page.tab.locator("section[data-filled]").count(), sections_of(data))
                if data["findings"]:
                    self.assertIn(data["findings"][0]["kind"], page.text("#verdict article"))
                for name in sections_with_nothing(data):
                    self.assertIn(data[name]["none"], page.text(f"#gaps #{name}"))
                self.assert_fits(page)
                self.assert_quiet(page)

    def test_a_phone(self):
        for job in ("hang", "late", "cycle", "mixed"):
            with self.subTest(job), self.browser.page(width=390, height=844) as page:
                page.open(self.report(job))
                page.show_all()
                self.assert_fits(page)
                self.assert_quiet(page)

    def test_search_for_a_rank(self):
        with self.browser.page() as page:
            page.open(self.report("thousand"))
            page.tab.keyboard.press("/")
            page.tab.keyboard.type("641")
            self.assertIn("rank 641", page.text(".hits li[aria-selected=true]"))
            page.tab.keyboard.press("Enter")
            page.tab.wait_for_selector(".panel")
            self.assertTrue(page.tab.url.endswith("#rank-641"))
            self.assertIn("node-80", page.text(".panel"))
            self.assertIn("rank_not_arrived", page.text(".panel"))
            page.tab.keyboard.press("Escape")
            self.assertEqual(page.tab.locator(".panel").count(), 0)
            self.assert_quiet(page)

    def test_search_by_host_and_for_nothing(self):
        with self.browser.page() as page:
            page.open(self.report("thousand"))
            page.tab.fill(".search input", "node-80")
            self.assertEqual(page.tab.locator(".hits li a").count(), 8)
            page.tab.fill(".search input", "no such thing")
            self.assertIn("nothing found", page.text(".hits"))

    def test_a_rank_without_a_record(self):
        with tempfile.TemporaryDirectory() as dumps, self.browser.page() as page:
            job = fr_files.Job(4)
            job.everywhere("0", "all_reduce", [[1024]], without=(3,), state="scheduled")
            job.write(pathlib.Path(dumps), without={3})
            path = self.written("missing", dumps)
            page.open(path, "#rank-3")
            self.assertIn("none", page.text(".panel"))
            page.show("gaps")
            self.assertIn("3", page.text("#gaps"))
            self.assert_quiet(page)

    def test_a_link_to_a_finding(self):
        with self.browser.page(height=300) as page:
            path = self.report("dead")
            page.open(path)
            link = page.tab.locator("article .anchor").first.get_attribute("href")
            page.open(path, link)
            self.assertEqual(page.tab.locator(f"{link}.target").count(), 1)
            self.assertTrue(page.tab.evaluate(
                "link => { const at = document.querySelector(link).getBoundingClientRect();"
                " return at.top >= 0 && at.top < innerHeight; }", link))

    def test_a_link_to_a_section_that_is_far_below(self):
        with self.browser.page() as page:
            page.open(self.report("late"), "#gaps")
            self.assertEqual(page.tab.locator("#gaps[data-filled]").count(), 1)
            page.tab.wait_for_function("""() => {
                const { top } = document.getElementById("gaps").getBoundingClientRect();
                return top >= 0 && top < innerHeight;
            }""")

    def test_light_and_dark(self):
        ground = "getComputedStyle(document.body).backgroundColor"
        for dark in (False, True):
            with self.subTest(dark=dark), self.browser.page(dark=dark) as page:
                page.open(self.report("late"))
                page.show_all()
                before = page.tab.evaluate(ground)
                for ratio, pair in zip(page.tab.evaluate(CONTRAST, PAIRS), PAIRS):
                    self.assertGreaterEqual(ratio, LEAST_CONTRAST, pair)
                page.tab.keyboard.press("t")
                self.assertNotEqual(page.tab.evaluate(ground), before)
                for ratio, pair in zip(page.tab.evaluate(CONTRAST, PAIRS), PAIRS):
                    self.assertGreaterEqual(ratio, LEAST_CONTRAST, pair)
                self.assert_quiet(page)

    def test_the_keyboard_goes_from_section_to_section(self):
        with self.browser.page() as page:
            page.open(self.report("late"))
            first, second = page.tab.eval_on_selector_all("section:not(#verdict)", "all => all.map(one => one.id)")[:2]
            for key, section in (("n", first), ("n", second), ("p", first), ("p", "verdict")):
                page.tab.keyboard.press(key)
                self.assertTrue(page.tab.url.endswith(f"#{section}"), (key, page.tab.url))
                page.tab.evaluate(SCROLLED)  # the next key counts from there

    def test_a_thousand_ranks(self):
        for job in ("thousand", "thousand late"):
            with self.subTest(job), self.browser.page() as page:
                path = self.report(job)
                seconds = page.open(path)
                elements = page.tab.evaluate("document.querySelectorAll('*').length")
                megabytes = path.stat().st_size / 1e6
                print(f"{job}: {megabytes:.2f} MB, first view after {seconds:.2f} s, {elements} elements")
                self.assertLess(elements, MOST_FIRST_ELEMENTS)
                self.assertLess(path.stat().st_size, 5e6)
                page.show("lateness")
                page.tab.click("#lateness .choice button:last-child") if job != "thousand" else None
                page.show("around")
                page.tab.click("#around .choice button:last-child")
                page.tab.mouse.move(600, 400)
                self.assert_quiet(page)

    def test_printed(self):
        with self.browser.page() as page:
            path = self.report("late")
            page.open(path)
            sections = sections_of(browser.data_of(path))
            self.assertLess(page.tab.locator("section[data-filled]").count(), sections, "the rest is below the screen")
            printed = page.tab.pdf()
            self.assertTrue(printed.startswith(b"%PDF"))
            self.assertEqual(page.tab.locator("section[data-filled]").count(), sections)
            self.assert_quiet(page)

    def test_nothing_of_a_job_is_executed(self):
        with tempfile.TemporaryDirectory() as dumps, self.browser.page() as page:
            fr_files.hostile_job().write(pathlib.Path(dumps))
            page.open(self.written("hostile", dumps))
            page.show_all()
            self.assertIn("</script><img", page.text("#calls"), "it is shown as it is")
            self.assertIsNone(page.tab.evaluate("window.hacked ?? null"))
            self.assertEqual(page.tab.locator("img").count(), 0)
            self.assert_fits(page)
            self.assert_quiet(page)

    def test_without_scripts(self):
        context = self.browser.chromium.new_context(java_script_enabled=False)
        tab = context.new_page()
        tab.goto(self.report("hang").resolve().as_uri())
        self.assertIn("VERDICT  rank_not_arrived", tab.inner_text("noscript"))
        context.close()

    def test_the_pointer(self):
        with self.browser.page() as page:
            page.open(self.report("late"))
            page.show("lateness")
            box = page.tab.locator("#lateness canvas").bounding_box()
            page.tab.mouse.move(box["x"] + box["width"] / 2, box["y"] + 24)
            self.assertIn("rank 5", page.text("#lateness .tip"))
            page.tab.mouse.click(box["x"] + box["width"] / 2, box["y"] + 24)
            page.tab.wait_for_selector(".panel")
            self.assertIn("Rank 5", page.text(".panel"))


if __name__ == "__main__":
    browser.need_playwright()
    harness.main()
