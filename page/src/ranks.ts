// Ranks as ranges ("0-3,7"), as the analyzer writes them.
import type { Ranges } from "./data";

function* pairs(ranges: Ranges): Generator<[number, number]> {
    for (const part of ranges.split(",")) {
        if (part !== "") {
            const [first, last] = part.split("-").map(Number);
            yield [first!, last ?? first!];
        }
    }
}

export function countOf(ranges: Ranges): number {
    let count = 0;
    for (const [first, last] of pairs(ranges)) {
        count += last - first + 1;
    }
    return count;
}

export function includes(ranges: Ranges, rank: number): boolean {
    for (const [first, last] of pairs(ranges)) {
        if (first <= rank && rank <= last) {
            return true;
        }
    }
    return false;
}

export function firstOf(ranges: Ranges): number | undefined {
    for (const [first] of pairs(ranges)) {
        return first;
    }
    return undefined;
}

// "rank 3", "ranks 0-2,5"; long ones are cut at a comma.
export function named(ranges: Ranges, most = 60): string {
    const count = countOf(ranges);
    if (count === 0) {
        return "no rank";
    }
    const end = ranges.length > most ? ranges.lastIndexOf(",", most) : -1;
    const shown = ranges.length <= most ? ranges : `${ranges.slice(0, end > 0 ? end : most)}…`;
    return `${count === 1 ? "rank" : "ranks"} ${shown}`;
}
