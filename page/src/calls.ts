// Who is where: ranks in rows, communicators by what they are for in columns.
import type { CallCell, Calls } from "./data";
import { type Child, h, note, table } from "./dom";
import { ranksLink } from "./links";
import { counted, cut } from "./words";

function cellOf(cell: CallCell | null, most: number): Child {
    if (cell === null) {
        return "";
    }
    const [called, started, finished, op] = cell;
    if (called < 0) {
        return h("span", { class: "calls quiet" }, "none");
    }
    const behind = most - called;
    const pending = finished >= 0 && finished < called;
    const notes = [
        started >= 0 ? `started #${started}` : "start not seen",
        finished >= 0 ? `finished #${finished}` : "end not seen",
    ];
    return h(
        "span",
        {
            class: `calls${behind > 0 ? " behind" : pending ? " pending" : ""}`,
            title: `${cut(op, 80)}; ${notes.join(", ")}`,
        },
        h("b", {}, `#${called}`),
        behind > 0 ? h("span", { class: "delta" }, ` ▼ ${behind} behind`) : null,
        h(
            "small",
            {},
            finished === called ? "finished" : finished >= 0 || started >= 0 ? notes.join(", ") : "end not seen",
        ),
    );
}

export function calls(data: Calls): HTMLElement[] {
    const most = data.columns.map((_, i) => Math.max(...data.rows.map((row) => row.cells[i]?.[0] ?? -1)));
    const rows = data.rows.map((row) => [
        ranksLink(row.ranks),
        h("span", { class: "state" }, cut(row.state, 240)),
        ...row.cells.map((cell, i) => cellOf(cell, most[i]!)),
    ]);
    const columns = [
        "ranks",
        "what they do",
        ...data.columns.map((name) => ({ title: cut(name, 40), hint: cut(name, 400) })),
    ];
    const left = [
        data.more_columns ? counted(data.more_columns, "more communicator") : "",
        data.more_rows ? counted(data.more_rows, "more row") : "",
    ].filter(Boolean);
    return [
        table(columns, rows, 24),
        note(
            "The newest call of each rank on its communicators. Ranks that are alike share a row; the last come first.",
            left.length ? ` Left out: ${left.join(", ")}.` : "",
        ),
    ];
}
