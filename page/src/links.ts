// Links into the page: to a rank, to a finding. They are the part of the address behind '#', so they can be sent.
import { type Child, h } from "./dom";
import type { Finding, Ranges, Sentence } from "./data";
import { countOf, firstOf, named } from "./ranks";

export function rankLink(rank: number, text = `rank ${rank}`): HTMLElement {
    return h("a", { class: "rank", href: `#rank-${rank}` }, text);
}

// One rank is a link to it; of many the first is, and all are in the hint.
export function ranksLink(ranges: Ranges, most = 60): HTMLElement | string {
    const first = firstOf(ranges);
    if (first === undefined) {
        return "no rank";
    }
    const link = rankLink(first, named(ranges, most));
    link.classList.toggle("short", ranges.length < 24);
    if (countOf(ranges) > 1) {
        link.title = `${countOf(ranges).toLocaleString("en-US")} ranks: ${ranges.slice(0, 2000)}`;
    }
    return link;
}

export function sentence(parts: Sentence): HTMLElement {
    const children: Child[] = parts.map((part) => {
        if (typeof part === "string") {
            return part;
        }
        return part.ranks?.length ? rankLink(part.ranks[0]!, part.text) : h("span", { class: "fact" }, part.text);
    });
    return h("span", {}, ...children);
}

// The name of a finding for links: what it is, and of whom; the same in the next report of the same records.
export function findingIds(findings: Finding[]): string[] {
    const seen = new Map<string, number>();
    return findings.map((finding) => {
        const base = `finding-${finding.kind}${finding.ranks ? `-${finding.ranks.slice(0, 40)}` : ""}`;
        const id = base.replace(/[^\w-]+/g, "_");
        const count = (seen.get(id) ?? 0) + 1;
        seen.set(id, count);
        return count === 1 ? id : `${id}-${count}`;
    });
}
