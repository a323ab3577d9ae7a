// Elements. Text goes in as text nodes and nothing else: no name of a job can become markup.
import { plain } from "./words";

export type Child = Node | string | number | null | undefined | false;
type Attributes = Record<string, string | number | boolean | undefined | ((event: Event) => void)>;

function fill(element: Element, attributes: Attributes, children: Child[]): void {
    for (const [name, value] of Object.entries(attributes)) {
        if (typeof value === "function") {
            element.addEventListener(name, value);
        } else if (value === true) {
            element.setAttribute(name, "");
        } else if (value !== false && value !== undefined) {
            element.setAttribute(name, String(value));
        }
    }
    for (const child of children) {
        if (child !== null && child !== undefined && child !== false) {
            element.append(child instanceof Node ? child : plain(String(child)));
        }
    }
}

export function h<K extends keyof HTMLElementTagNameMap>(
    tag: K,
    attributes: Attributes = {},
    ...children: Child[]
): HTMLElementTagNameMap[K] {
    const element = document.createElement(tag);
    fill(element, attributes, children);
    return element;
}

export function svg<K extends keyof SVGElementTagNameMap>(
    tag: K,
    attributes: Attributes = {},
    ...children: Child[]
): SVGElementTagNameMap[K] {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    fill(element, attributes, children);
    return element;
}

// A remark below a picture or table; nothing where there is nothing to say.
export function note(...children: Child[]): HTMLElement {
    const said = children.filter(Boolean);
    return said.length === 0 ? h("span") : h("p", { class: "note" }, ...said);
}

export interface Column {
    title: string;
    right?: boolean;
    hint?: string;
}

// A table of which the first `most` rows are shown until somebody asks for all.
// A column is told by its title alone, with ">" before it if it stands on the right.
export function table(told: (Column | string)[], rows: Child[][], most = 20, label = "rows"): HTMLElement {
    const columns = told.map((of): Column => {
        return typeof of === "string" ? { title: of.replace(/^>/, ""), right: of.startsWith(">") } : of;
    });
    if (rows.length === 0) {
        return h("span");
    }
    const body = h("tbody");
    const add = (from: number, to: number) => {
        for (const row of rows.slice(from, to)) {
            body.append(
                h("tr", {}, ...row.map((cell, i) => h("td", { class: columns[i]?.right ? "right" : undefined }, cell))),
            );
        }
    };
    add(0, most);
    const head = h(
        "thead",
        {},
        h(
            "tr",
            {},
            ...columns.map((column) =>
                h("th", { class: column.right ? "right" : undefined, title: column.hint, scope: "col" }, column.title),
            ),
        ),
    );
    const wrap = h("div", { class: "table", tabindex: 0 }, h("table", {}, head, body));
    if (rows.length <= most) {
        return wrap;
    }
    const more = h(
        "button",
        {
            class: "more",
            type: "button",
            click: () => {
                add(most, rows.length);
                more.remove();
            },
        },
        `Show all ${rows.length.toLocaleString("en-US")} ${label}`,
    );
    return h("div", {}, wrap, more);
}

// One of several views of the same thing.
export function choice(name: string, labels: string[], choose: (index: number) => void): HTMLElement {
    const buttons = labels.map((label, index) =>
        h(
            "button",
            {
                type: "button",
                "aria-pressed": index === 0 ? "true" : "false",
                click: () => {
                    buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(i === index)));
                    choose(index);
                },
            },
            label,
        ),
    );
    return h("div", { class: "choice", role: "group", "aria-label": name }, ...buttons);
}
