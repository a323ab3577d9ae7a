// What titan-analyze puts into the page (analyzer/cli/report_command.cpp, docs/use/report.md).

// Ranks as ranges: "0-3,7".
export type Ranges = string;

export interface Nothing {
    none: string;
}
export type Section<T> = T | Nothing;

export interface Fact {
    text: string;
    ranks?: number[];
}
export type Sentence = (string | Fact)[];

export type Block =
    | { type: "paragraph"; text: Sentence }
    | { type: "items"; items: Sentence[] }
    | { type: "table"; columns: string[]; rows: string[][] }
    | { type: "chain"; steps: Sentence[]; back: Sentence }
    | { type: "rank_groups"; groups: { ranks: Sentence; state: string; named: boolean }[] }
    | { type: "frames"; frames: string[] }
    | { type: "commands"; lines: string[] };

export interface DocumentSection {
    id: string;
    title: string;
    tone: "plain" | "good" | "caution" | "alarm";
    lead?: Sentence;
    blocks: Block[];
    sections?: DocumentSection[];
}

export interface Finding {
    kind: string;
    confidence: string;
    ranks: Ranges;
    victims: Ranges;
    hangs: boolean;
    meaning: string;
    remedy: string;
}

export interface Gap {
    kind: string;
    meaning: string;
    ranks: Ranges;
    text: string;
}

export interface Ranks {
    columns: string[];
    rows: number[][];
    texts: string[];
}

// Sequence numbers of what was called, started and finished last (-1: nothing, or not seen), and the operation.
export type CallCell = [number, number, number, string];

export interface Calls {
    columns: string[];
    rows: { ranks: Ranges; state: string; cells: (CallCell | null)[] }[];
    more_columns: number;
    more_rows: number;
}

export interface WaitNode {
    title: string;
    calls: number;
    waiting: Ranges;
    waiting_ranks: number;
    absent: { ranks: Ranges; of_unknown_rank: number; reason: string; free: boolean; unseen: boolean }[];
    blocked: Ranges;
    finished: Ranges;
    waited_ns: number;
    hangs: boolean;
    in_cycle: boolean;
}

export interface Waits {
    nodes: WaitNode[];
    edges: { from: number; to: number; because_of: Ranges }[];
    more_nodes: number;
}

// Number of the text, sequence number; entered, returned, started, finished in microseconds; whether it has finished.
export type AroundCall = [number, number, number, number | null, number | null, number | null, boolean];

export interface Around {
    hang: boolean;
    zero_realtime_ns: number;
    clocks: string;
    texts: string[];
    rows: { rank: number; calls: AroundCall[] }[];
}

export interface Lateness {
    steps: boolean;
    keys: number[];
    keys_in_a_column: number;
    length_ns: number;
    rows: {
        rank: number;
        late_us: number[];
        cost_ns: number; // of each step (or call), as `stragglers` tells it
        share: number; // of the step
        slow_part: string;
        straggler: boolean;
    }[];
    ranks_of_another_axis: number;
}

export interface Duration {
    kind: string;
    name: string;
    count: number;
    calls: number;
    sum_ns: number | null;
    mean_ns: number | null;
    p50_ns: number | null;
    p99_ns: number | null;
    max_ns: number | null;
    share_of_steps: number | null;
    bus_gb_per_s: number | null;
    slowest_rank: number;
    slowest_rank_mean_ns: number | null;
    up_to_bytes?: number;
}

export interface Durations {
    rows: Duration[];
    more_rows: number;
}

export interface Steps {
    steps: number[];
    ranks: number[];
    mean_ns: number[];
    shortest_ns: number[];
    longest_ns: number[];
    slowest_rank: number[];
    parts: { name: string; mean_ns: number[] }[];
}

export interface Metrics {
    series: {
        name: string;
        reduction: string;
        every: number;
        steps: number[];
        values: (number | null)[];
        lowest: (number | null)[];
        highest: (number | null)[];
        not_finite: Ranges;
        never_reported: Ranges;
    }[];
    more_metrics: number;
}

export interface StackNode {
    frames: string[];
    ranks: Ranges;
    threads: number;
    children: StackNode[];
}

export interface StackTree {
    roots: StackNode[];
    cut: boolean;
}

export interface Stacks {
    main_threads: StackTree;
    all_threads: StackTree;
    notes: string[];
}

export type GoodputRow = { kind: string } & Record<string, number | string | null>;

export interface Health {
    faults: { device: string; what: string; ranks: Ranges }[];
    readings: {
        kind: string;
        what: string;
        readings: number;
        least: number;
        least_rank: number;
        median: number;
        most: number;
        most_rank: number;
    }[];
}

export interface Settings {
    rows: { name: string; value: string | null; ranks: Ranges }[];
    more_rows: number;
    equal: number;
}

export interface PageData {
    schema: number;
    version: string;
    run: {
        id: string;
        attempt: number;
        world_size: number;
        ranks: number;
        missing: Ranges;
        hosts: number;
        newest_realtime_ns: number;
        labels: { name: string; value: string }[];
    };
    document: { about: Sentence; sections: DocumentSection[] };
    findings: Finding[];
    gaps: Gap[];
    ranks: Section<Ranks>;
    calls: Section<Calls>;
    waits: Section<Waits>;
    around: Section<Around>;
    lateness: Section<Lateness>;
    durations: Section<Durations>;
    sizes: Section<Durations>;
    steps: Section<Steps>;
    metrics: Section<Metrics>;
    stacks: Section<Stacks> & { notes?: string[] };
    goodput: Section<GoodputRow[]>;
    health: Section<Health>;
    settings: Section<Settings>;
}

export function isNothing(section: unknown): section is Nothing {
    return typeof section === "object" && section !== null && "none" in section;
}
