// The wait-for graph, drawn: an arrow leads from a call to what it waits for.
import { Graph, layout } from "@dagrejs/dagre";
import type { Waits } from "./data";
import { h, note, svg } from "./dom";
import { countOf, firstOf, named } from "./ranks";
import { counted, cut, duration } from "./words";

interface Box {
    lines: string[];
    kind: "cause" | "unseen" | "cycle" | "hang" | "wait";
    rank?: number | undefined;
    width: number;
    height: number;
}

const lineHeight = 18;
const charWidth = 7.1;
const boldWidth = 8;

function box(lines: string[], kind: Box["kind"], rank?: number): Box {
    const longest = Math.max(...lines.map((line, i) => line.length * (i === 0 ? boldWidth : charWidth)));
    return { lines, kind, rank, width: Math.max(120, longest + 26), height: lines.length * lineHeight + 18 };
}

// Calls are numbered as in the data; what holds nothing else back is a box of its own.
export function boxesOf(data: Waits): {
    boxes: Map<string, Box>;
    arrows: { from: string; to: string; label: string }[];
} {
    const boxes = new Map<string, Box>();
    const arrows: { from: string; to: string; label: string }[] = [];
    data.nodes.forEach((node, i) => {
        const title = cut(node.title, 44) + (node.calls > 1 ? ` × ${node.calls}` : "");
        const who =
            node.waiting_ranks > 1 && node.waiting.length > 26
                ? counted(node.waiting_ranks, "rank")
                : named(node.waiting, 26);
        const waits = `${who} wait${node.waiting_ranks === 1 ? "s" : ""}`;
        const time = node.waited_ns > 0 ? `up to ${duration(node.waited_ns)}` : "";
        boxes.set(
            `n${i}`,
            box(
                [title, [waits, time].filter(Boolean).join(", ")],
                node.in_cycle ? "cycle" : node.hangs ? "hang" : "wait",
            ),
        );
        for (const absent of node.absent) {
            if (!absent.free) {
                continue;
            }
            const ranks = absent.ranks || "";
            const name = ranks ? named(ranks, 26) : counted(absent.of_unknown_rank, "member");
            const key = `c${ranks}|${absent.of_unknown_rank}|${absent.reason}`;
            boxes.set(key, box([name, absent.reason], absent.unseen ? "unseen" : "cause", firstOf(ranks)));
            arrows.push({ from: `n${i}`, to: key, label: "" });
        }
    });
    for (const edge of data.edges) {
        if (edge.from !== edge.to) {
            const count = countOf(edge.because_of);
            arrows.push({
                from: `n${edge.from}`,
                to: `n${edge.to}`,
                label: count > 3 ? counted(count, "rank") : named(edge.because_of, 20),
            });
        }
    }
    return { boxes, arrows };
}

function pathOf(points: { x: number; y: number }[]): string {
    return points.map((point, i) => `${i === 0 ? "M" : "L"}${point.x.toFixed(1)},${point.y.toFixed(1)}`).join("");
}

// A call of the graph as a sentence.
function words(data: Waits, index: number): string {
    const node = data.nodes[index]!;
    const such = node.calls > 1 ? ` (${node.calls} such calls)` : "";
    const absent = node.absent.map((one) => {
        const who = one.ranks ? named(one.ranks, 200) : counted(one.of_unknown_rank, "member");
        return `${who}: ${one.reason}`;
    });
    const arrows = data.edges.filter((edge) => edge.from === index && edge.to !== index);
    const others = arrows.map((edge) => {
        const title = cut(data.nodes[edge.to]?.title ?? "", 120);
        return `held by ${title} (${named(edge.because_of, 100)})`;
    });
    const why = [...absent, ...others].join("; ") || "all have come";
    return `${cut(node.title, 120)}${such}, in which ${named(node.waiting, 200)} wait: ${why}`;
}

export function waits(data: Waits): HTMLElement[] {
    const { boxes, arrows } = boxesOf(data);
    const graph = new Graph({ multigraph: true });
    graph.setGraph({ rankdir: "LR", nodesep: 18, ranksep: 54, marginx: 6, marginy: 6 });
    graph.setDefaultEdgeLabel(() => ({}));
    for (const [key, of] of boxes) {
        graph.setNode(key, { width: of.width, height: of.height });
    }
    arrows.forEach((arrow, i) => {
        graph.setEdge(
            arrow.from,
            arrow.to,
            { width: arrow.label.length * 6.2, height: arrow.label ? 16 : 0, labelpos: "c" },
            String(i),
        );
    });
    layout(graph);
    const { width = 0, height = 0 } = graph.graph() as { width?: number; height?: number };
    const picture = svg(
        "svg",
        {
            viewBox: `0 0 ${width} ${height}`,
            width,
            height,
            class: "graph",
            role: "img",
            "aria-label": "wait-for graph; the text below says the same",
        },
        svg(
            "defs",
            {},
            svg(
                "marker",
                {
                    id: "arrow",
                    viewBox: "0 0 10 10",
                    refX: 9,
                    refY: 5,
                    markerWidth: 7,
                    markerHeight: 7,
                    orient: "auto-start-reverse",
                },
                svg("path", { d: "M0,0L10,5L0,10z" }),
            ),
        ),
    );
    picture.style.minWidth = `${width * 0.7}px`; // smaller it would not be read: then it scrolls
    arrows.forEach((arrow, i) => {
        const edge = graph.edge(arrow.from, arrow.to, String(i)) as {
            points: { x: number; y: number }[];
            x?: number;
            y?: number;
        };
        const cycle = boxes.get(arrow.from)?.kind === "cycle" && boxes.get(arrow.to)?.kind === "cycle";
        picture.append(
            svg("path", { class: `edge${cycle ? " cycle" : ""}`, d: pathOf(edge.points), "marker-end": "url(#arrow)" }),
        );
        if (arrow.label && edge.x !== undefined && edge.y !== undefined) {
            picture.append(
                svg("text", { class: "edge-label", x: edge.x, y: edge.y - 4, "text-anchor": "middle" }, arrow.label),
            );
        }
    });
    for (const [key, of] of boxes) {
        const at = graph.node(key) as { x: number; y: number };
        const left = at.x - of.width / 2;
        const top = at.y - of.height / 2;
        const group = svg("g", { class: `node ${of.kind}` });
        group.append(
            svg("rect", {
                x: left,
                y: top,
                width: of.width,
                height: of.height,
                rx: of.kind === "cause" || of.kind === "unseen" ? of.height / 2 : 6,
            }),
        );
        of.lines.forEach((line, i) => {
            group.append(
                svg(
                    "text",
                    { x: at.x, y: top + 22 + i * lineHeight, "text-anchor": "middle", class: i === 0 ? "first" : "" },
                    line,
                ),
            );
        });
        picture.append(of.rank === undefined ? group : svg("a", { href: `#rank-${of.rank}` }, group));
    }
    const keys: [Box["kind"], string][] = [
        ["cause", "nothing visible holds it: a cause"],
        ["unseen", "not seen: may be a cause"],
        ["cycle", "part of a cycle"],
        ["hang", "hangs"],
        ["wait", "waits, no hang yet"],
    ];
    const present = new Set([...boxes.values()].map((of) => of.kind));
    return [
        h("div", { class: "scroll", tabindex: 0 }, picture),
        h(
            "p",
            { class: "legend" },
            ...keys
                .filter(([kind]) => present.has(kind))
                .map(([kind, text]) => h("span", { class: `key ${kind}` }, text)),
        ),
        h(
            "details",
            {},
            h("summary", {}, "The same as text"),
            h("ul", {}, ...data.nodes.map((_, i) => h("li", {}, words(data, i)))),
        ),
        note(data.more_nodes && `Left out: ${counted(data.more_nodes, "more call")} that wait.`),
    ];
}
