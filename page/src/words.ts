// Numbers and names for people.

const units: [number, string][] = [
    [3600e9, "h"],
    [60e9, "min"],
    [1e9, "s"],
    [1e6, "ms"],
    [1e3, "us"],
];

// "4.1 s", "350 ms", "12 us".
export function duration(ns: number | null | undefined): string {
    if (ns === null || ns === undefined || !Number.isFinite(ns)) {
        return "–";
    }
    const size = Math.abs(ns);
    for (const [unit, name] of units) {
        if (size >= unit) {
            return `${digits(ns / unit)} ${name}`;
        }
    }
    return ns === 0 ? "0" : `${digits(ns)} ns`;
}

// Three digits that mean something.
export function digits(value: number): string {
    const size = Math.abs(value);
    return size >= 100 || Number.isInteger(value) ? grouped(Math.round(value)) : value.toPrecision(size < 1 ? 2 : 3);
}

export function grouped(value: number): string {
    return value.toLocaleString("en-US", { maximumFractionDigits: 0 });
}

export function number(value: number | null | undefined): string {
    if (value === null || value === undefined) {
        return "–";
    }
    return Number.isInteger(value) && Math.abs(value) < 1e15 ? grouped(value) : String(Number(value.toPrecision(5)));
}

export function percent(share: number): string {
    return `${(100 * share).toFixed(1)}%`;
}

export function counted(count: number, noun: string): string {
    return `${grouped(count)} ${noun}${count === 1 ? "" : "s"}`;
}

export function bytes(count: number): string {
    const names = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let place = 0;
    while (count >= 1024 && place < names.length - 1) {
        count /= 1024;
        ++place;
    }
    return `${digits(count)} ${names[place]}`;
}

// Control characters, and those that turn the order of text around, become a mark. Names come from strangers.
export function plain(text: string): string {
    return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
}

export function cut(text: string, most: number): string {
    const shown = plain(text);
    return shown.length <= most ? shown : `${shown.slice(0, most - 1)}…`;
}

export function date(ns: number): string {
    return ns <= 0
        ? ""
        : new Date(ns / 1e6)
              .toISOString()
              .replace("T", " ")
              .replace(/\.\d+Z$/, " UTC");
}

export function sentenceCase(text: string): string {
    return text.charAt(0).toUpperCase() + text.slice(1);
}
