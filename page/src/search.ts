// Finds ranks by number, host or place, findings by kind, and sections by title.
import type { PageData } from "./data";
import { h } from "./dom";
import { findingIds } from "./links";
import type { RankRow } from "./rank_panel";
import { cut } from "./words";

export interface Hit {
    href: string;
    title: string;
    hint: string;
}

const most = 8;

export function find(data: PageData, rows: Map<number, RankRow>, sections: Hit[], typed: string): Hit[] {
    const text = typed.trim().toLowerCase();
    if (text === "") {
        return [];
    }
    const hits: Hit[] = [];
    const number = /^(?:rank\s*)?(\d+)$/.exec(text)?.[1];
    const hitOf = (row: RankRow): Hit => ({
        href: `#rank-${row.rank}`,
        title: `rank ${row.rank}`,
        hint: cut([row.host, row.place].filter(Boolean).join(", "), 80),
    });
    if (number !== undefined) {
        const exact = Number(number);
        if (!rows.has(exact) && exact < data.run.world_size) {
            hits.push({ href: `#rank-${exact}`, title: `rank ${exact}`, hint: "no record" });
        }
        const starting = [...rows.values()].filter((row) => String(row.rank).startsWith(number));
        starting.sort((a, b) => Number(b.rank === exact) - Number(a.rank === exact) || a.rank - b.rank);
        hits.push(...starting.slice(0, most).map(hitOf));
    } else {
        findingIds(data.findings).forEach((id, i) => {
            const finding = data.findings[i]!;
            if (finding.kind.replaceAll("_", " ").includes(text.replaceAll("_", " "))) {
                hits.push({
                    href: `#${id}`,
                    title: finding.kind,
                    hint: `${finding.confidence}, ranks ${finding.ranks.slice(0, 40)}`,
                });
            }
        });
        hits.push(...sections.filter((section) => section.title.toLowerCase().includes(text)));
        for (const row of rows.values()) {
            if (hits.length >= most) {
                break;
            }
            if (`${row.host} ${row.place} ${row.status}`.toLowerCase().includes(text)) {
                hits.push(hitOf(row));
            }
        }
    }
    return hits.slice(0, most);
}

// A box with the list of what it finds below: arrows choose, Enter goes there.
export function searchBox(look: (typed: string) => Hit[]): { element: HTMLElement; focus: () => void } {
    const list = h("ul", { class: "hits", id: "hits", role: "listbox", "aria-label": "Found", hidden: true });
    const input = h("input", {
        type: "search",
        placeholder: "Search a rank, host, finding",
        "aria-label": "Search a rank, host or finding",
        "aria-controls": "hits",
        role: "combobox",
        "aria-expanded": "false",
        autocomplete: "off",
        spellcheck: "false",
    });
    let hits: Hit[] = [];
    let chosen = 0;
    const draw = () => {
        list.hidden = input.value.trim() === "";
        input.setAttribute("aria-expanded", String(!list.hidden));
        list.replaceChildren(
            ...hits.map((hit, i) =>
                h(
                    "li",
                    { role: "option", "aria-selected": String(i === chosen) },
                    h(
                        "a",
                        { href: hit.href, tabindex: -1, click: leave },
                        h("b", {}, hit.title),
                        h("small", {}, ` ${hit.hint}`),
                    ),
                ),
            ),
            ...(hits.length === 0 ? [h("li", { class: "quiet" }, "nothing found")] : []),
        );
    };
    const leave = () => {
        input.value = "";
        hits = [];
        draw();
        input.blur();
    };
    input.addEventListener("input", () => {
        hits = look(input.value);
        chosen = 0;
        draw();
    });
    input.addEventListener("keydown", (event) => {
        if (event.key === "ArrowDown" || event.key === "ArrowUp") {
            chosen = Math.max(0, Math.min(hits.length - 1, chosen + (event.key === "ArrowDown" ? 1 : -1)));
            draw();
            event.preventDefault();
        } else if (event.key === "Enter" && hits[chosen]) {
            location.hash = hits[chosen]!.href;
            leave();
        } else if (event.key === "Escape") {
            leave();
        }
        event.stopPropagation();
    });
    return { element: h("div", { class: "search", role: "search" }, input, list), focus: () => input.focus() };
}
