// Variables and versions that are not the same on all ranks.
import type { Settings } from "./data";
import { note, table } from "./dom";
import { ranksLink } from "./links";
import { counted, cut } from "./words";

export function settings(data: Settings): HTMLElement[] {
    return [
        table(
            ["name", "value", "ranks"],
            data.rows.map((row) => [
                cut(row.name, 80),
                row.value === null ? "(not set)" : cut(row.value, 200),
                ranksLink(row.ranks),
            ]),
        ),
        note(
            `The same on all ranks: ${counted(data.equal, "setting")} (titan-analyze layout --config).`,
            data.more_rows ? ` Left out: ${counted(data.more_rows, "more row")}.` : "",
        ),
    ];
}
