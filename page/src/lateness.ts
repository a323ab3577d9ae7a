// How long the others waited for each rank, step by step.
import { canvas, onRedraw } from "./canvas";
import { css, ramp } from "./colours";
import type { Lateness } from "./data";
import { choice, h, note, table } from "./dom";
import { rankLink } from "./links";
import { cut, duration, grouped, percent } from "./words";

const axis = 20;
const label = 74;
const mostRows = 60; // in the order of what they cost

// The value that all but one in a hundred of the others stay below: one outlier does not make the rest pale.
export function strongest(rows: Lateness["rows"]): number {
    const all = rows
        .flatMap((row) => row.late_us)
        .filter((value) => value > 0)
        .sort((a, b) => a - b);
    return all.length === 0 ? 1 : all[Math.min(all.length - 1, Math.ceil(all.length * 0.995))]!;
}

export function lateness(data: Lateness): HTMLElement[] {
    const all = [...data.rows].sort((a, b) => Number(b.straggler) - Number(a.straggler) || b.cost_ns - a.cost_ns);
    const byCost = all.slice(0, mostRows);
    const columns = data.keys.length;
    const most = strongest(data.rows);
    const any = data.rows.some((row) => row.late_us.length > 0);
    const what = data.steps ? "step" : "call";
    let rows = byCost;
    const step = () => Math.max(1, Math.min(16, 640 / rows.length));
    const key = (px: number, width: number) => Math.floor(((px - label) / (width - label)) * columns);
    const picture = canvas({
        label: "lateness of ranks over steps; the table below has the ranks that cost most",
        height: () => axis + Math.max(rows.length * step(), 20),
        draw(context, width) {
            const cell = (width - label) / columns;
            const scale = ramp();
            context.fillStyle = scale(0);
            context.fillRect(label, axis, width - label, rows.length * step());
            rows.forEach((row, r) => {
                row.late_us.forEach((late, c) => {
                    if (late > 0) {
                        context.fillStyle = scale(0.12 + 0.88 * Math.sqrt(late / most));
                        context.fillRect(label + c * cell, axis + r * step(), Math.max(cell, 1) + 0.3, step() + 0.3);
                    }
                });
            });
            context.textBaseline = "middle";
            context.fillStyle = css("--quiet");
            const ticks = Math.min(columns, Math.max(1, Math.floor((width - label) / 90)));
            for (let i = 0; i < ticks; ++i) {
                const c = Math.floor((i * columns) / ticks);
                context.textAlign = "left";
                context.fillText(`${i === 0 ? `${what} ` : ""}${data.keys[c]}`, label + c * cell, 8);
            }
            context.fillStyle = css("--text");
            let free = 0;
            rows.forEach((row, r) => {
                const y = axis + (r + 0.5) * step();
                if (y >= free) {
                    context.fillText(`rank ${row.rank}`, 2, y);
                    free = y + 14;
                }
            });
        },
        at(px, y, width) {
            const row = rows[Math.floor((y - axis) / step())];
            const c = key(px, width);
            if (!row || y < axis || c < 0 || c >= columns) {
                return "";
            }
            const last = data.keys_in_a_column > 1 ? `–${data.keys[c]! + data.keys_in_a_column - 1}` : "";
            return `rank ${row.rank}, ${what} ${data.keys[c]}${last}: ${duration((row.late_us[c] ?? 0) * 1000)}`;
        },
        choose(_, y) {
            const row = rows[Math.floor((y - axis) / step())];
            if (row && y >= axis) {
                location.hash = `rank-${row.rank}`;
            }
        },
    });
    if (!any) {
        return [
            h(
                "p",
                {},
                `No rank kept the others waiting (${grouped(columns)} ${what}s, ${grouped(data.rows.length)} ranks).`,
            ),
        ];
    }
    const bar = h("i", { class: "ramp" });
    const shade = () => {
        bar.style.background = `linear-gradient(to right, ${[0, 0.25, 0.5, 0.75, 1].map(ramp()).join(", ")})`;
    };
    shade();
    onRedraw(shade);
    return [
        choice(
            "Order",
            [
                data.rows.length > mostRows ? `the ${mostRows} that cost most` : "those that cost most first",
                "all by rank",
            ],
            (index) => {
                rows = index === 0 ? byCost : [...data.rows].sort((a, b) => a.rank - b.rank);
                picture.redraw();
            },
        ),
        picture.element,
        h(
            "p",
            { class: "legend" },
            h("span", {}, "0 ", bar, ` ${duration(most * 1000)} and more that the others waited for it`),
        ),
        table(
            ["rank", `>costs per ${what}`, `>of the ${what}`, "straggler", "what is slow"],
            all
                .slice(0, 10)
                .map((row) => [
                    rankLink(row.rank),
                    duration(row.cost_ns),
                    percent(row.share),
                    row.straggler ? "yes" : "no",
                    row.straggler ? cut(row.slow_part, 80) : "",
                ]),
            10,
            "of the ranks that cost most",
        ),
        note(
            data.ranks_of_another_axis &&
                `${grouped(data.ranks_of_another_axis)} more ranks share no ${what}s with these.`,
        ),
    ];
}
