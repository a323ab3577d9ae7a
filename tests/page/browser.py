"""A page of titan-analyze report in Debian's Chromium, for the tests here and for scripts/draw-report."""

import contextlib
import json
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


def need_playwright():
    """Goes on in the Python that has Playwright, where this one has not."""
    try:
        import playwright  # noqa: F401
    except ImportError:
        import os
        python = ROOT / ".venv-browser" / "bin" / "python"
        if not python.exists():
            sys.exit("Playwright is missing: ./scripts/setup --browser")
        if pathlib.Path(sys.prefix) == ROOT / ".venv-browser":
            raise
        os.execv(python, [str(python), *sys.argv])


class Page:
    """One page; what it logs, throws and asks of the network is kept."""

    def __init__(self, tab):
        self.tab, self.complaints, self.requests = tab, [], []
        tab.on("console", lambda message: self.complaints.append(f"{message.type}: {message.text}"))
        tab.on("pageerror", lambda error: self.complaints.append(str(error)))
        tab.on("dialog", lambda dialog: (self.complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        tab.on("request", lambda request: self.requests.append(request.url))

    def open(self, path, fragment=""):
        """Seconds until the first view stands."""
        begun = time.monotonic()
        self.tab.goto(path.resolve().as_uri() + fragment)
        self.tab.wait_for_selector("html[data-ready]")
        self.tab.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return time.monotonic() - begun

    def show(self, section):
        self.tab.evaluate("id => document.getElementById(id).scrollIntoView()", section)
        self.tab.wait_for_selector(f"#{section}[data-filled]")

    def show_all(self):
        for section in self.tab.eval_on_selector_all("section:not(#verdict)", "all => all.map(one => one.id)"):
            self.show(section)

    def text(self, selector):
        return self.tab.inner_text(selector)


class Browser:
    def __init__(self, playwright):
        self.chromium = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])

    @contextlib.contextmanager
    def page(self, width=1280, height=900, dark=False, ratio=1):
        context = self.chromium.new_context(viewport={"width": width, "height": height}, device_scale_factor=ratio,
                                            color_scheme="dark" if dark else "light")
        try:
            yield Page(context.new_page())
        finally:
            context.close()


@contextlib.contextmanager
def browser():
    from playwright.sync_api import sync_playwright
    with sync_playwright() as playwright:
        made = Browser(playwright)
        try:
            yield made
        finally:
            made.chromium.close()


def data_of(path):
    """What titan-analyze put into a page."""
    text = path.read_text(encoding="utf-8")
    begin = text.index(">", text.index('id="data"')) + 1
    return json.loads(text[begin:text.index("</script>", begin)])
