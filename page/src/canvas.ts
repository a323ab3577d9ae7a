// A drawing that follows the width of the page, the theme and the pointer.
import { h } from "./dom";

export interface Drawing {
    // Draws at that width, and returns what to say of a point.
    draw(context: CanvasRenderingContext2D, width: number): void;
    height(width: number): number;
    at(x: number, y: number, width: number): string;
    choose?(x: number, y: number, width: number): void;
    label: string;
}

const redraws = new Set<() => void>();
export function redrawAll(): void {
    for (const redraw of redraws) {
        redraw();
    }
}
export function onRedraw(redraw: () => void): void {
    redraws.add(redraw);
}

export function canvas(drawing: Drawing): { element: HTMLElement; redraw: () => void } {
    const picture = h("canvas", { role: "img", "aria-label": drawing.label });
    const tip = h("div", { class: "tip", hidden: true });
    const element = h("div", { class: "canvas" }, picture, tip);
    let width = 0;
    const redraw = () => {
        width = element.clientWidth;
        if (width === 0) {
            return;
        }
        const height = drawing.height(width);
        const ratio = Math.min(window.devicePixelRatio || 1, 2);
        picture.width = Math.round(width * ratio);
        picture.height = Math.round(height * ratio);
        picture.style.width = `${width}px`;
        picture.style.height = `${height}px`;
        const context = picture.getContext("2d");
        if (context) {
            context.scale(ratio, ratio);
            context.font = "12px system-ui, sans-serif";
            drawing.draw(context, width);
        }
    };
    new ResizeObserver(() => {
        if (element.clientWidth !== width) {
            redraw();
        }
    }).observe(element);
    onRedraw(redraw);
    const place = (event: MouseEvent): [number, number] => {
        const frame = picture.getBoundingClientRect();
        return [event.clientX - frame.left, event.clientY - frame.top];
    };
    picture.addEventListener("mousemove", (event) => {
        const [x, y] = place(event);
        const text = drawing.at(x, y, width);
        tip.hidden = text === "";
        tip.textContent = text;
        tip.style.left = `${Math.min(x + 12, Math.max(width - 260, 0))}px`;
        tip.style.top = `${y + 14}px`;
    });
    picture.addEventListener("mouseleave", () => {
        tip.hidden = true;
    });
    picture.addEventListener("click", (event) => drawing.choose?.(...place(event), width));
    return { element, redraw };
}
