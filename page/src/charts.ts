// Steps and metrics as lines (uPlot).
import uPlot from "uplot";
import { onRedraw } from "./canvas";
import { categoryColours, css } from "./colours";
import type { Metrics, Steps } from "./data";
import { h, note } from "./dom";
import { named } from "./ranks";
import { counted, cut, duration, number } from "./words";

type Values = (number | null)[];

interface Line {
    label: string;
    colour: number; // of the categories
    fill?: boolean;
    faint?: boolean;
    own?: Values; // what the legend tells, where the line is a sum
}

// A chart that is made anew when the width or the theme changes.
function chart(
    steps: number[],
    series: Values[],
    lines: Line[],
    height: number,
    format: (value: number | null) => string,
    fromZero: boolean,
    bands: uPlot.Band[] = [],
): HTMLElement {
    const place = h("div", { class: "chart" });
    let made: uPlot | null = null;
    let width = 0;
    const make = () => {
        width = place.clientWidth;
        if (width === 0) {
            return;
        }
        made?.destroy();
        const category = categoryColours();
        const axis: uPlot.Axis = {
            stroke: css("--quiet"),
            grid: { stroke: css("--line"), width: 1 },
            ticks: { stroke: css("--line"), width: 1 },
            font: "12px system-ui, sans-serif",
        };
        made = new uPlot(
            {
                width,
                height,
                legend: { live: true },
                cursor: { points: { size: 5 }, drag: { x: true, y: false } },
                scales: {
                    x: { time: false },
                    ...(fromZero ? { y: { range: (_, __, most) => [0, most * 1.05] } } : {}),
                },
                axes: [
                    {
                        ...axis,
                        label: "step",
                        labelFont: axis.font!,
                        labelSize: 18,
                        size: 34,
                        values: (_, values) => values.map((value) => (Number.isInteger(value) ? String(value) : "")),
                    },
                    { ...axis, size: 70, values: (_, values) => values.map((value) => format(value)) },
                ],
                series: [
                    { label: "step", value: (_, value) => (value === null ? "" : number(value)) },
                    ...lines.map((line) => ({
                        label: cut(line.label, 40),
                        stroke: category(line.colour),
                        width: line.faint ? 0.75 : 1.75,
                        ...(line.fill ? { fill: category(line.colour) } : {}),
                        points: { show: steps.length < 3 },
                        value: (_: uPlot, value: number | null, __: number, at: number | null) =>
                            at === null ? "" : format(line.own ? (line.own[at] ?? null) : value),
                    })),
                ],
                bands: bands.map((band) => ({ ...band, fill: `${category(lines[band.series[0] - 1]!.colour)}33` })),
            },
            [steps, ...series],
            place,
        );
    };
    new ResizeObserver(() => {
        if (place.clientWidth !== width) {
            make();
        }
    }).observe(place);
    onRedraw(make);
    return place;
}

export function steps(data: Steps): HTMLElement[] {
    const lengths = chart(
        data.steps,
        [data.longest_ns, data.shortest_ns, data.mean_ns],
        [
            { label: "slowest rank", colour: 1, faint: true },
            { label: "fastest rank", colour: 1, faint: true },
            { label: "mean", colour: 0 },
        ],
        200,
        duration,
        true,
        [{ series: [1, 2] }],
    );
    // Each line lies on those before it; the highest is drawn first, so that the others cover it.
    const sums: number[][] = [];
    for (const part of data.parts) {
        const below = sums[sums.length - 1];
        sums.push(part.mean_ns.map((value, i) => value + (below?.[i] ?? 0)));
    }
    const order = data.parts.map((_, i) => data.parts.length - 1 - i);
    const parts = h("div", { class: "chart stacked" });
    if (data.parts.length > 0) {
        parts.append(h("h3", {}, "What the time of a step went into, mean of the ranks"), stack(data, sums, order));
    }
    return [
        h("h3", {}, "Length of a step"),
        lengths,
        parts,
        note(
            `${counted(data.steps.length, "step")} on record. A span is without those inside it, and without waiting.`,
        ),
    ];
}

function stack(data: Steps, sums: number[][], order: number[]): HTMLElement {
    return chart(
        data.steps,
        order.map((i) => sums[i]!),
        order.map((i) => ({
            label: data.parts[i]!.name,
            colour: i,
            fill: true,
            faint: true,
            own: data.parts[i]!.mean_ns,
        })),
        240,
        duration,
        true,
    );
}

export function metrics(data: Metrics): HTMLElement[] {
    const tiles = data.series.map((series) => {
        const odd = [
            series.not_finite ? `not finite on ${named(series.not_finite)}` : "",
            series.never_reported ? `never reported by ${named(series.never_reported)}` : "",
            series.every > 1 ? `every ${series.every}th step` : "",
        ].filter(Boolean);
        const joined = series.reduction === "none" || series.reduction === "" ? "mean of ranks" : series.reduction;
        return h(
            "figure",
            { class: "tile" },
            h("figcaption", { title: cut(series.name, 400) }, cut(series.name, 60), h("small", {}, ` ${joined}`)),
            chart(
                series.steps,
                [series.highest, series.lowest, series.values],
                [
                    { label: "highest rank", colour: 1, faint: true },
                    { label: "lowest rank", colour: 1, faint: true },
                    { label: "value", colour: 0 },
                ],
                150,
                number,
                false,
                [{ series: [1, 2] }],
            ),
            odd.length ? note(odd.join("; ")) : null,
        );
    });
    return [
        h("div", { class: "tiles" }, ...tiles),
        note(data.more_metrics && `Left out: ${counted(data.more_metrics, "more metric")} (titan-analyze metrics).`),
    ];
}
