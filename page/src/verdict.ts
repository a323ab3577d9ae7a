// The diagnosis as the analyzer words it: verdict, evidence, other findings, what next.
import type { Block, DocumentSection, Finding, PageData } from "./data";
import { h } from "./dom";
import { findingIds, sentence } from "./links";
import { cut, plain, sentenceCase } from "./words";

function block(of: Block): HTMLElement {
    switch (of.type) {
        case "paragraph":
            return h("p", {}, sentence(of.text));
        case "items":
            return h("ul", {}, ...of.items.map((item) => h("li", {}, sentence(item))));
        case "chain":
            return h("ol", { class: "chain" }, ...[...of.steps, of.back].map((step) => h("li", {}, sentence(step))));
        case "rank_groups":
            return h(
                "dl",
                { class: "groups" },
                ...of.groups.flatMap((group) => [
                    h("dt", { class: group.named ? "named" : undefined }, sentence(group.ranks)),
                    h("dd", {}, cut(group.state, 1000)),
                ]),
            );
        case "frames":
            return h("pre", { class: "frames", tabindex: 0 }, of.frames.map(plain).join("\n"));
        case "commands":
            return h("pre", { class: "commands", tabindex: 0 }, of.lines.map(plain).join("\n"));
        case "table":
            return h(
                "div",
                { class: "table" },
                h("table", {}, h("tbody", {}, ...of.rows.map((row) => h("tr", {}, ...row.map((c) => h("td", {}, c)))))),
            );
    }
}

const folded = new Set(["stack"]);
const words: Record<string, string> = { alarm: "Verdict", caution: "", good: "", plain: "" };

function part(section: DocumentSection): HTMLElement {
    const content = section.blocks.map(block);
    if (folded.has(section.id)) {
        return h("details", { open: true }, h("summary", {}, section.title), ...content);
    }
    return h("div", { class: `part ${section.id}` }, section.title ? h("h3", {}, section.title) : null, ...content);
}

function findingCard(section: DocumentSection, finding: Finding, id: string, isVerdict: boolean): HTMLElement {
    const [first, ...rest] = section.blocks;
    return h(
        "article",
        { class: `card ${section.tone}`, id },
        h(
            "header",
            {},
            h("span", { class: "label" }, isVerdict ? "Verdict" : "Also"),
            h("code", { title: finding.meaning }, finding.kind),
            h("span", { class: `chip ${finding.confidence}` }, finding.confidence),
            h("a", { class: "anchor", href: `#${id}`, title: "Link to this finding" }, "#"),
        ),
        first?.type === "paragraph" ? h("p", { class: "summary" }, sentence(first.text)) : null,
        ...rest.map(block),
        ...(section.sections ?? []).map(part),
    );
}

// Warnings have a section of their own (gaps).
export function verdict(data: PageData): HTMLElement[] {
    const ids = findingIds(data.findings);
    let next = 0;
    const cards: HTMLElement[] = [];
    let advice: HTMLElement | null = null;
    const others: HTMLElement[] = [];
    for (const section of data.document.sections) {
        if (section.id === "verdict" || section.id === "finding") {
            const finding = data.findings[next];
            const id = ids[next] ?? `finding-${next}`;
            ++next;
            if (finding) {
                (section.id === "verdict" ? cards : others).push(
                    findingCard(section, finding, id, section.id === "verdict"),
                );
            }
        } else if (section.id === "next_steps") {
            advice = h(
                "article",
                { class: "card plain advice", id: "next" },
                h("h3", {}, section.title),
                ...section.blocks.map(block),
            );
        } else if (section.id !== "warnings") {
            cards.push(
                h(
                    "article",
                    { class: `card ${section.tone}`, id: section.id },
                    h(
                        "header",
                        {},
                        h("span", { class: "label" }, words[section.tone] || sentenceCase(section.title.toLowerCase())),
                    ),
                    section.lead ? h("p", { class: "summary" }, sentence(section.lead)) : null,
                    ...section.blocks.map(block),
                ),
            );
        }
    }
    if (advice) {
        cards.push(advice);
    }
    const few = 5;
    if (others.length > few) {
        const rest = others.splice(few);
        others.push(h("details", { class: "others" }, h("summary", {}, `${rest.length} more findings`), ...rest));
    }
    return [...cards, ...others];
}
