// What takes the time, and collectives by size with their bus bandwidth.
import type { Duration, Durations } from "./data";
import { type Child, h, note, table } from "./dom";
import { rankLink } from "./links";
import { bytes, counted, cut, digits, duration, grouped, percent } from "./words";

function bar(share: number): HTMLElement {
    const fill = h("i");
    fill.style.width = `${Math.max(0, Math.min(share, 1)) * 100}%`;
    return h("span", { class: "bar" }, fill);
}

function withBar(text: string, share: number): Child {
    return h("span", { class: "with-bar" }, bar(share), h("span", {}, text));
}

function count(row: Duration): string {
    return row.calls > row.count ? `${grouped(row.count)} of ${grouped(row.calls)}` : grouped(row.count);
}

const kinds: Record<string, string> = { GPU: "on the GPU", host: "on the host", span: "span", step: "steps" };

// Rows without a time say so together.
function untimed(rows: Duration[]): HTMLElement {
    const names = [...new Set(rows.filter((row) => row.count === 0).map((row) => cut(row.name, 40)))];
    return names.length === 0
        ? h("span")
        : note(
              "How long these took was not seen (TITANTRACE_GPU_PROGRESS=timing shows it): ",
              names.slice(0, 12).join(", "),
              names.length > 12 ? ` and ${names.length - 12} more.` : ".",
          );
}

export function durations(data: Durations): HTMLElement[] {
    const most = Math.max(...data.rows.map((row) => row.sum_ns ?? 0), 1);
    const stepsAreMarked = data.rows.some((row) => row.share_of_steps !== null);
    const rows = data.rows
        .filter((row) => row.count > 0)
        .map((row) => [
            h("span", { title: cut(row.name, 400) }, cut(row.name, 60)),
            kinds[row.kind] ?? row.kind,
            count(row),
            row.share_of_steps === null && stepsAreMarked
                ? "–"
                : withBar(
                      row.share_of_steps === null ? "–" : percent(row.share_of_steps),
                      row.share_of_steps ?? (row.sum_ns ?? 0) / most,
                  ),
            duration(row.mean_ns),
            duration(row.p50_ns),
            duration(row.p99_ns),
            duration(row.max_ns),
            row.slowest_rank < 0
                ? "–"
                : h("span", {}, rankLink(row.slowest_rank), ` ${duration(row.slowest_rank_mean_ns)}`),
        ]);
    return [
        table(
            [
                "what",
                "kind",
                { title: "count", right: true, hint: "“24 of 72”: how long the other calls took is not known" },
                { title: "of the steps", right: true, hint: "spans are nested: shares do not add up to 100%" },
                ">mean",
                ">median",
                ">p99",
                ">longest",
                "slowest on average",
            ],
            rows,
            16,
        ),
        untimed(data.rows),
        note(data.more_rows && `Left out: ${counted(data.more_rows, "more row")} (titan-analyze summary).`),
    ];
}

export function sizes(data: Durations): HTMLElement[] {
    const fastest = Math.max(...data.rows.map((row) => row.bus_gb_per_s ?? 0), 1e-9);
    const longest = Math.max(...data.rows.map((row) => row.sum_ns ?? 0), 1);
    const rows = data.rows
        .filter((row) => row.count > 0)
        .map((row) => [
            cut(row.name, 60),
            `≤ ${bytes(row.up_to_bytes ?? 0)}`,
            row.kind === "GPU" ? "GPU" : "host",
            count(row),
            withBar(duration(row.sum_ns), (row.sum_ns ?? 0) / longest),
            duration(row.p50_ns),
            duration(row.p99_ns),
            row.bus_gb_per_s === null || row.count === 0
                ? "–"
                : withBar(row.bus_gb_per_s < 0.01 ? "< 0.01" : digits(row.bus_gb_per_s), row.bus_gb_per_s / fastest),
        ]);
    return [
        table(
            [
                "collective",
                "size",
                "seen on",
                ">calls",
                ">time, all ranks",
                ">median",
                ">p99",
                {
                    title: "bus GB/s",
                    right: true,
                    hint: "by the factors of nccl-tests, with the time that members wait for each other",
                },
            ],
            rows,
            24,
        ),
        untimed(data.rows),
    ];
}
