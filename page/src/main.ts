// Puts the page together: the verdict at once, every other section when it is near the screen, or printed.
import { around } from "./around";
import { calls } from "./calls";
import { redrawAll } from "./canvas";
import { isDark } from "./colours";
import { metrics, steps } from "./charts";
import { type PageData, type Section, isNothing } from "./data";
import { h } from "./dom";
import { durations, sizes } from "./durations";
import { lateness } from "./lateness";
import { sentence } from "./links";
import { gaps, goodput, health } from "./machine";
import { rankPanel, rankRows } from "./rank_panel";
import { find, searchBox } from "./search";
import { settings } from "./settings";
import { notes, stacks } from "./stacks";
import { verdict } from "./verdict";
import { waits } from "./waits";
import { cut, date } from "./words";

const data = JSON.parse(document.getElementById("data")!.textContent!) as PageData;
const rows = rankRows(data);
let searched: number | null = null;

interface Part {
    id: string;
    title: string;
    render: () => HTMLElement[];
}

const parts: Part[] = [];
const empty: { id: string; title: string; why: string }[] = [];

// What is looked at first of a job that hangs, and of one that does not.
const hangs = !isNothing(data.around) && data.around.hang;
const order = hangs
    ? [
          "calls",
          "waits",
          "around",
          "lateness",
          "sizes",
          "durations",
          "steps",
          "metrics",
          "stacks",
          "goodput",
          "health",
          "settings",
      ]
    : [
          "steps",
          "lateness",
          "durations",
          "metrics",
          "goodput",
          "sizes",
          "around",
          "calls",
          "waits",
          "stacks",
          "health",
          "settings",
      ];

// A section without content is a line of the last one.
function part<T>(id: string, title: string, section: Section<T>, show: (of: T) => HTMLElement[]): void {
    if (isNothing(section)) {
        empty.push({ id, title, why: section.none });
    } else {
        parts.push({ id, title, render: () => show(section) });
    }
}

part("calls", "Who is where", data.calls, calls);
part("waits", "Who waits for whom", data.waits, waits);
part("around", hangs ? "Calls around the hang" : "The newest calls", data.around, (of) =>
    around(of, isNothing(data.calls) ? null : data.calls, data.findings, () => searched),
);
part("lateness", "Late ranks", data.lateness, lateness);
part("sizes", "Collectives by size", data.sizes, sizes);
part("durations", "What takes the time", data.durations, durations);
part("steps", "Steps and spans", data.steps, steps);
part("metrics", "Metrics", data.metrics, metrics);
part("stacks", "Stacks", data.stacks, stacks);
part("goodput", "Goodput", data.goodput, goodput);
part("health", "Health of the machines", data.health, health);
part("settings", "Settings that differ", data.settings, settings);
parts.sort((a, b) => order.indexOf(a.id) - order.indexOf(b.id));
parts.push({
    id: "gaps",
    title: "What could not be seen",
    render: () => [...gaps(data, empty), isNothing(data.stacks) ? notes(data.stacks.notes ?? []) : h("span")],
});

const sections = new Map<string, { element: HTMLElement; fill: () => void }>();
for (const of of parts) {
    const body = h("div", { class: "body" });
    const element = h(
        "section",
        { id: of.id, "aria-labelledby": `title-${of.id}` },
        h(
            "h2",
            { id: `title-${of.id}` },
            of.title,
            h("a", { class: "anchor", href: `#${of.id}`, title: "Link to this section" }, "#"),
        ),
        body,
    );
    let filled = false;
    sections.set(of.id, {
        element,
        fill: () => {
            if (!filled) {
                filled = true;
                body.append(...of.render());
                element.dataset["filled"] = "";
            }
        },
    });
}

function head(): HTMLElement {
    const { run } = data;
    const name = run.id === "" ? "titantrace report" : `${cut(run.id, 60)}, attempt ${run.attempt}`;
    document.title = `${name}: ${data.findings[0]?.kind ?? "titantrace"}`;
    const theme = h(
        "button",
        {
            type: "button",
            class: "theme",
            title: "Light or dark (t)",
            "aria-label": "Light or dark",
            click: switchTheme,
        },
        "◐",
    );
    return h(
        "header",
        { class: "top" },
        h("div", { class: "name" }, h("b", {}, name), h("small", {}, ` ${date(run.newest_realtime_ns)}`)),
        search.element,
        theme,
    );
}

function switchTheme(): void {
    const next = isDark() ? "light" : "dark";
    document.documentElement.dataset["theme"] = next;
    try {
        localStorage.setItem("titantrace-theme", next);
    } catch {
        // A file that may not store anything: the choice lasts as long as the page.
    }
    redrawAll();
}

const search = searchBox((typed) =>
    find(
        data,
        rows,
        parts.map((of) => ({ href: `#${of.id}`, title: of.title, hint: "section" })),
        typed,
    ),
);

const panelPlace = h("div");

function closePanel(): void {
    if (searched !== null) {
        searched = null;
        panelPlace.replaceChildren();
        history.replaceState(null, "", location.pathname + location.search);
    }
}

// "#rank-3" opens the rank, "#waits" and "#finding-..." go there.
function follow(): void {
    const target = decodeURIComponent(location.hash.slice(1));
    const rank = /^rank-(\d{1,9})$/.exec(target)?.[1];
    if (rank !== undefined) {
        searched = Number(rank);
        const panel = rankPanel(data, rows, searched, closePanel);
        panelPlace.replaceChildren(panel);
        panel.focus({ preventScroll: true });
        redrawAll();
        return;
    }
    fillDownTo(empty.some((of) => of.id === target) ? "gaps" : target);
    const element = target === "" ? null : document.getElementById(target);
    if (element) {
        element.closest("details:not([open])")?.setAttribute("open", "");
        element.scrollIntoView({ block: "start" });
        // Once more when what lies above it has its height.
        requestAnimationFrame(() => requestAnimationFrame(() => element.scrollIntoView({ block: "start" })));
        document.querySelectorAll(".target").forEach((old) => old.classList.remove("target"));
        element.classList.add("target");
    }
}

// What is drawn later would push the target away.
function fillDownTo(id: string): void {
    if (sections.has(id)) {
        for (const [above, section] of sections) {
            section.fill();
            if (above === id) {
                return;
            }
        }
    }
}

function step(direction: 1 | -1): void {
    const places = ["verdict", ...sections.keys()];
    const tops = places.map((id) => document.getElementById(id)!.getBoundingClientRect().top);
    const current = tops.findLastIndex((top) => top < 90);
    const next = places[Math.max(0, Math.min(places.length - 1, current + direction))]!;
    location.hash = next;
    follow();
}

function keys(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) {
        return;
    }
    const actions: Record<string, () => void> = {
        "/": search.focus,
        n: () => step(1),
        p: () => step(-1),
        t: switchTheme,
        Escape: closePanel,
    };
    const action = actions[event.key];
    if (action) {
        event.preventDefault();
        action();
    }
}

function start(): void {
    try {
        const kept = localStorage.getItem("titantrace-theme");
        if (kept === "light" || kept === "dark") {
            document.documentElement.dataset["theme"] = kept;
        }
    } catch {
        // As above.
    }
    const licences = document.getElementById("licences")!.textContent!;
    document.body.prepend(
        head(),
        h(
            "div",
            { class: "frame" },
            h(
                "nav",
                { "aria-label": "Sections" },
                h("a", { href: "#verdict" }, "Verdict"),
                ...parts.map((of) => h("a", { href: `#${of.id}` }, of.title)),
            ),
            h(
                "main",
                {},
                h(
                    "section",
                    { id: "verdict" },
                    h("p", { class: "about" }, sentence(data.document.about)),
                    ...verdict(data),
                ),
                ...[...sections.values()].map((section) => section.element),
                h(
                    "footer",
                    {},
                    h(
                        "p",
                        {},
                        `titan-analyze ${data.version}. Keys: / search, n next section, p previous, t light or dark.`,
                    ),
                    h("details", {}, h("summary", {}, "Licences of what is in this page"), h("pre", {}, licences)),
                ),
            ),
        ),
        panelPlace,
    );
    const watcher = new IntersectionObserver(
        (seen) => {
            for (const entry of seen) {
                if (entry.isIntersecting) {
                    sections.get(entry.target.id)?.fill();
                    watcher.unobserve(entry.target);
                }
            }
        },
        { rootMargin: "600px" },
    );
    for (const section of sections.values()) {
        watcher.observe(section.element);
    }
    addEventListener("hashchange", follow);
    addEventListener("keydown", keys);
    // Paper is light.
    let screen: string | undefined;
    addEventListener("beforeprint", () => {
        screen = document.documentElement.dataset["theme"];
        document.documentElement.dataset["theme"] = "light";
        fillDownTo("gaps");
        redrawAll();
    });
    addEventListener("afterprint", () => {
        if (screen === undefined) {
            delete document.documentElement.dataset["theme"];
        } else {
            document.documentElement.dataset["theme"] = screen;
        }
        redrawAll();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
    follow();
    document.documentElement.dataset["ready"] = "";
}

start();
