// Goodput of the attempts, readings of the machines, and what could not be seen.
import { categoryStyle } from "./colours";
import type { Gap, GoodputRow, Health, PageData } from "./data";
import { type Child, h, table } from "./dom";
import { ranksLink, rankLink } from "./links";
import { countOf } from "./ranks";
import { cut, duration, number, percent } from "./words";

const parts: [string, string][] = [
    ["training_ns", "training"],
    ["initialization_ns", "start"],
    ["compile_ns", "compile"],
    ["checkpoint_ns", "checkpoints"],
    ["data_ns", "data"],
    ["validation_ns", "validation"],
    ["end_ns", "end: a hang, or the shutdown"],
    ["not_on_record_ns", "not on record"],
];

const ns = (row: GoodputRow, key: string) => Number(row[key] ?? 0);

function bar(row: GoodputRow, scale: number): HTMLElement {
    const whole = h("div", { class: "parts" });
    parts.forEach(([key, name], i) => {
        if (ns(row, key) > 0) {
            const piece = h("i", { title: `${name}: ${duration(ns(row, key))}` });
            piece.style.width = `${(100 * ns(row, key)) / scale}%`;
            piece.style.background = categoryStyle(i);
            whole.append(piece);
        }
    });
    return whole;
}

export function goodput(rows: GoodputRow[]): HTMLElement[] {
    const attempts = rows.filter((row) => row.kind === "attempt");
    const all = rows.find((row) => row.kind === "goodput");
    const scale = Math.max(...attempts.map((row) => ns(row, "took_ns")), 1);
    const used = parts.filter(([key]) => attempts.some((row) => ns(row, key) > 0));
    const swatch = (i: number) => {
        const element = h("i", { class: "swatch" });
        element.style.background = categoryStyle(i);
        return element;
    };
    const marked = attempts.some((row) => row["first_step"] !== null);
    return [
        marked
            ? h(
                  "p",
                  { class: "figure" },
                  h("b", {}, percent(ns(all ?? { kind: "" }, "share"))),
                  ` of ${duration(ns(all ?? { kind: "" }, "took_ns"))} was training that is kept.`,
              )
            : h("p", {}, "The program marks no steps: how much of the time was training is not known."),
        table(
            [">attempt", ">ranks", "where its time went", ">took", "steps", ">done again"],
            attempts.map((row): Child[] => [
                String(row["attempt"]),
                number(ns(row, "ranks")),
                bar(row, scale),
                duration(ns(row, "took_ns")),
                row["first_step"] === null ? "none marked" : `${row["first_step"]}–${row["newest_step"]}`,
                ns(row, "lost_ns") > 0 ? duration(ns(row, "lost_ns")) : "–",
            ]),
        ),
        h(
            "p",
            { class: "legend" },
            ...used.map(([, name]) => h("span", {}, swatch(parts.findIndex((p) => p[1] === name)), name)),
        ),
    ];
}

const order = ["cgroup", "cpu", "host", "port", "gpu"].reverse();

export function health(data: Health): HTMLElement[] {
    return [
        data.faults.length === 0
            ? h("p", {}, "No fault was read.")
            : h(
                  "ul",
                  { class: "faults" },
                  ...data.faults.map((fault) =>
                      h(
                          "li",
                          {},
                          h("b", {}, cut(fault.device, 80)),
                          ` ${cut(fault.what, 200)} (`,
                          ranksLink(fault.ranks),
                          ")",
                      ),
                  ),
              ),
        table(
            ["reading", ">devices", ">least", "on", ">median", ">most", "on"],
            [...data.readings]
                .sort((a, b) => order.indexOf(a.kind) - order.indexOf(b.kind))
                .map((row) => [
                    `${row.kind}.${cut(row.what, 60)}`,
                    number(row.readings),
                    number(row.least),
                    row.least === row.most ? "" : rankLink(row.least_rank),
                    number(row.median),
                    number(row.most),
                    row.least === row.most ? "" : rankLink(row.most_rank),
                ]),
            12,
        ),
    ];
}

// `empty`: sections that have nothing to show, and why.
export function gaps(data: PageData, empty: { id: string; title: string; why: string }[]): HTMLElement[] {
    const item = (gap: Gap) => h("li", { title: gap.meaning }, cut(gap.text, 2000));
    const missing = countOf(data.run.missing);
    const list = [
        missing > 0 && data.gaps.every((gap) => !gap.text.includes(data.run.missing))
            ? h("li", {}, `No record: ${missing} of ${data.run.world_size} ranks (${data.run.missing.slice(0, 400)}).`)
            : null,
        ...data.gaps.map(item),
        ...empty.map((of) => h("li", { id: of.id }, h("b", {}, of.title), `: ${cut(of.why, 400)}.`)),
    ].filter((element) => element !== null);
    return [list.length ? h("ul", {}, ...list) : h("p", { class: "none" }, "Nothing is known to be missing.")];
}
