// All that the page knows of one rank, beside the rest.
import { type PageData, isNothing } from "./data";
import { h } from "./dom";
import { findingIds, ranksLink } from "./links";
import { countOf, includes } from "./ranks";
import { cut, duration } from "./words";

export interface RankRow {
    rank: number;
    pid: number;
    step: number;
    host: string;
    place: string;
    status: string;
    state: string;
    file: string;
}

export function rankRows(data: PageData): Map<number, RankRow> {
    const rows = new Map<number, RankRow>();
    if (!isNothing(data.ranks)) {
        const { texts } = data.ranks;
        for (const [rank, pid, step, host, place, status, state, file] of data.ranks.rows as [
            number,
            number,
            number,
            number,
            number,
            number,
            number,
            number,
        ][]) {
            rows.set(rank, {
                rank,
                pid,
                step,
                host: texts[host] ?? "",
                place: texts[place] ?? "",
                status: texts[status] ?? "",
                state: texts[state] ?? "",
                file: texts[file] ?? "",
            });
        }
    }
    return rows;
}

export function rankPanel(data: PageData, rows: Map<number, RankRow>, rank: number, close: () => void): HTMLElement {
    const row = rows.get(rank);
    const list = h("dl");
    const add = (name: string, value: Node | string | number) => {
        if (value !== "") {
            list.append(h("dt", {}, name), h("dd", {}, value));
        }
    };
    if (row) {
        add("does", cut(row.state, 600));
        add("status", row.status);
        add("place", cut(row.place, 200));
        add("host", cut(row.host, 120));
        add("pid", row.pid || "");
        add("step", row.step >= 0 ? row.step : "");
        add("record", cut(row.file, 120));
    } else {
        add(
            "record",
            includes(data.run.missing, rank)
                ? "none: it left no dump and no ring"
                : "there is no such rank in this run",
        );
    }
    const ids = findingIds(data.findings);
    data.findings.forEach((finding, i) => {
        const named = includes(finding.ranks, rank);
        if (named || includes(finding.victims, rank)) {
            add(named ? "named by" : "waits because of", h("a", { href: `#${ids[i]}` }, finding.kind));
        }
    });
    if (!isNothing(data.calls)) {
        const own = data.calls.rows.find((calls) => includes(calls.ranks, rank));
        if (own) {
            const columns = data.calls.columns;
            add(
                "calls",
                h(
                    "ul",
                    {},
                    ...own.cells.map((cell, i) =>
                        cell && cell[0] >= 0
                            ? h("li", {}, `${cut(columns[i] ?? "", 60)}: ${cell[3]} #${cell[0]}`)
                            : null,
                    ),
                ),
            );
            if (countOf(own.ranks) > 1) {
                add("alike", ranksLink(own.ranks));
            }
        }
    }
    if (!isNothing(data.lateness)) {
        const late = data.lateness.rows.find((of) => of.rank === rank);
        if (late) {
            add("costs", `${duration(late.cost_ns)} of each ${data.lateness.steps ? "step" : "call"}`);
        }
    }
    return h(
        "aside",
        { class: "panel", "aria-label": `rank ${rank}`, tabindex: -1 },
        h(
            "header",
            {},
            h("h2", {}, `Rank ${rank}`),
            h("button", { type: "button", "aria-label": "Close", click: close }, "✕"),
        ),
        list,
    );
}
