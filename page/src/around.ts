// The newest calls of ranks as bars on one clock.
import { canvas } from "./canvas";
import { categoryColours, categoryStyle, css } from "./colours";
import type { Around, AroundCall, Calls, Finding } from "./data";
import { choice, h, note } from "./dom";
import { firstOf, includes } from "./ranks";
import { cut, date, duration, sentenceCase } from "./words";

const most = 24;
const axis = 22;
const label = 74;

// Ranks that findings name, then one of each kind of ranks that are alike.
export function chosenRanks(data: Around, calls: Calls | null, findings: Finding[]): number[] {
    const known = new Set(data.rows.map((row) => row.rank));
    const chosen = new Set<number>();
    const add = (rank: number | undefined) => {
        if (rank !== undefined && known.has(rank) && chosen.size < most) {
            chosen.add(rank);
        }
    };
    for (const finding of findings.slice(0, 4)) {
        data.rows
            .filter((row) => includes(finding.ranks, row.rank))
            .slice(0, 4)
            .forEach((row) => add(row.rank));
    }
    calls?.rows.forEach((row) => add(firstOf(row.ranks)));
    data.rows.slice(0, 8).forEach((row) => add(row.rank));
    return [...chosen];
}

interface Bar {
    from: number;
    to: number | null; // null: has not ended, as far as is seen
}

export function barOf(call: AroundCall): Bar {
    const [, , entered, returned, started, finished, done] = call;
    const from = started ?? entered;
    if (finished !== null) {
        return { from, to: finished };
    }
    return { from, to: done ? (returned ?? from) : null };
}

export function around(
    data: Around,
    calls: Calls | null,
    findings: Finding[],
    searched: () => number | null,
): HTMLElement[] {
    const seesEnds = data.rows.some((row) => row.calls.some((call) => call[6] || call[5] !== null));
    const some = chosenRanks(data, calls, findings);
    let all = false;
    const shown = () => {
        const extra = searched();
        const ranks = extra === null || some.includes(extra) ? some : [extra, ...some];
        return all ? data.rows : ranks.map((rank) => data.rows.find((row) => row.rank === rank)!).filter(Boolean);
    };
    const entered = data.rows.flatMap((row) => row.calls.map((call) => barOf(call).from));
    if (entered.length === 0) {
        return [h("p", { class: "none" }, "No call is on record in full.")];
    }
    const sorted = [...entered].sort((a, b) => a - b);
    const first = sorted[Math.floor(sorted.length * 0.02)]!;
    const last = Math.max(sorted[sorted.length - 1]!, 0);
    const span = Math.max(last - first, 1);
    const end = last + span * 0.12;
    const rowHeight = () => (all && data.rows.length > 60 ? Math.max(3, Math.min(12, 1800 / data.rows.length)) : 22);
    const x = (us: number, width: number) => label + ((us - first) / (end - first)) * (width - label - 8);
    const drawing = {
        label: "calls of ranks over time; the table above has their numbers",
        height: () => axis + shown().length * rowHeight() + 6,
        draw(context: CanvasRenderingContext2D, width: number) {
            const rows = shown();
            const category = categoryColours();
            const height = this.height();
            context.textBaseline = "middle";
            context.fillStyle = css("--quiet");
            const ticks = Math.max(2, Math.floor((width - label) / 130));
            for (let i = 0; i <= ticks; ++i) {
                const us = first + ((end - first) * i) / ticks;
                context.textAlign = i === 0 ? "left" : i === ticks ? "right" : "center";
                context.fillText(`${us >= 0 ? "+" : "−"}${duration(Math.abs(us) * 1000)}`, x(us, width), 9);
            }
            const step = rowHeight();
            rows.forEach((row, r) => {
                const top = axis + r * step;
                if (step >= 10) {
                    context.textAlign = "left";
                    context.fillStyle = findings.some((f) => includes(f.ranks, row.rank))
                        ? css("--alarm")
                        : css("--text");
                    context.fillText(`rank ${row.rank}`, 2, top + step / 2);
                    context.fillStyle = css("--line");
                    context.fillRect(label, top + step - 1, width - label, 1);
                }
                // Of unfinished calls the oldest holds the rank; of the others only the begin is drawn.
                const holds = row.calls.findLast((call) => barOf(call).to === null);
                for (const call of row.calls) {
                    const bar = barOf(call);
                    const from = Math.max(x(bar.from, width), label);
                    const inset = step >= 10 ? 4 : 0.5;
                    context.fillStyle = category(call[0]);
                    if (bar.to !== null) {
                        context.fillRect(from, top + inset, Math.max(x(bar.to, width) - from, 1.5), step - 2 * inset);
                    } else if (seesEnds && call === holds) {
                        const to = width - 8;
                        context.globalAlpha = 0.35;
                        context.fillRect(from, top + inset, to - from, step - 2 * inset);
                        context.globalAlpha = 1;
                        context.fillRect(from, top + inset, 2.5, step - 2 * inset);
                        if (step >= 10) {
                            context.beginPath();
                            context.moveTo(to - 1, top + inset);
                            context.lineTo(to + 6, top + step / 2);
                            context.lineTo(to - 1, top + step - inset);
                            context.fill();
                        }
                    } else {
                        context.fillRect(from, top + inset, 2.5, step - 2 * inset);
                    }
                }
            });
            if (data.hang) {
                context.fillStyle = css("--alarm");
                context.fillRect(x(0, width), axis - 4, 1.5, height - axis);
            }
        },
        rowAt(y: number) {
            return shown()[Math.floor((y - axis) / rowHeight())];
        },
        at(px: number, y: number, width: number): string {
            const row = this.rowAt(y);
            if (!row || y < axis) {
                return "";
            }
            const hit = row.calls.find((call) => {
                const bar = barOf(call);
                const to = bar.to !== null ? x(bar.to, width) : seesEnds ? width : x(bar.from, width) + 3;
                return px >= x(bar.from, width) - 2 && px <= Math.max(to, x(bar.from, width) + 3);
            });
            if (!hit) {
                return `rank ${row.rank}`;
            }
            const bar = barOf(hit);
            const name = `rank ${row.rank}: ${cut(data.texts[hit[0]] ?? "", 80)} #${hit[1]}`;
            return bar.to !== null
                ? `${name}, ${duration((bar.to - bar.from) * 1000)}`
                : `${name}, ${seesEnds ? "not finished" : "called; its end was not seen"}`;
        },
        choose(_: number, y: number) {
            const row = this.rowAt(y);
            if (row && y >= axis) {
                location.hash = `rank-${row.rank}`;
            }
        },
    };
    const picture = canvas(drawing);
    const used = new Set(data.rows.flatMap((row) => row.calls.map((call) => call[0])));
    const legend = data.texts
        .map((text, i) => ({ text, i }))
        .filter(({ i }) => used.has(i))
        .slice(0, 8)
        .map(({ text, i }) => {
            const swatch = h("i", { class: "swatch" });
            swatch.style.background = categoryStyle(i);
            return h("span", {}, swatch, cut(text, 60));
        });
    return [
        data.rows.length > some.length
            ? choice(
                  "Ranks",
                  ["ranks that differ", `all ${data.rows.length.toLocaleString("en-US")} ranks`],
                  (index) => {
                      all = index === 1;
                      picture.redraw();
                  },
              )
            : h("span"),
        picture.element,
        h("p", { class: "legend" }, ...legend),
        note(
            data.hang ? `The line is the begin of the hang, ${date(data.zero_realtime_ns)}. ` : "",
            seesEnds
                ? "A bar is a call on the GPU, or on the host where the GPU was not seen; a pale one has not finished."
                : "A mark is the begin of a call; no end was seen (TITANTRACE_GPU_PROGRESS=off, or another recorder).",
            data.clocks ? ` ${sentenceCase(cut(data.clocks, 200))}.` : "",
        ),
    ];
}
