// Stacks of all ranks as one tree, outermost frames first.
import type { StackNode, StackTree, Stacks } from "./data";
import { choice, h, note } from "./dom";
import { ranksLink } from "./links";
import { counted, cut, plain } from "./words";

function who(node: StackNode): HTMLElement {
    return h(
        "span",
        { class: "who" },
        ranksLink(node.ranks, 40),
        h("small", {}, ` ${counted(node.threads, "thread")}`),
    );
}

function node(of: StackNode, depth: number): HTMLElement {
    const frames = h("pre", { class: "frames" }, of.frames.map(plain).join("\n"));
    if (of.children.length === 0) {
        return h("li", {}, who(of), frames);
    }
    const list = h("ul");
    const fill = () => {
        if (!list.hasChildNodes()) {
            list.append(...of.children.map((child) => node(child, depth + 1)));
        }
    };
    const open = depth < 3;
    const details = h(
        "details",
        { open, toggle: fill },
        h("summary", {}, who(of), " ", h("small", {}, `splits into ${of.children.length}`)),
        frames,
        list,
    );
    if (open) {
        fill();
    }
    return h("li", {}, details);
}

function tree(of: StackTree): HTMLElement {
    return h(
        "div",
        { class: "scroll stacks", tabindex: 0 },
        h("ul", { class: "tree" }, ...of.roots.map((root) => node(root, 0))),
        note(of.cut && "More stacks than fit here: titan-analyze stacks shows all."),
    );
}

export function notes(all: string[]): HTMLElement {
    return all.length === 0
        ? h("span")
        : h(
              "details",
              {},
              h("summary", {}, "Notes on stacks"),
              h("ul", {}, ...all.map((note) => h("li", {}, cut(note, 600)))),
          );
}

export function stacks(data: Stacks): HTMLElement[] {
    const place = h("div", {}, tree(data.main_threads));
    return [
        choice("Threads", ["main threads", "all threads"], (index) => {
            place.replaceChildren(tree(index === 0 ? data.main_threads : data.all_threads));
        }),
        place,
        notes(data.notes),
    ];
}
