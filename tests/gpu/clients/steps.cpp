// How long steps of a training take, as "key value" lines: rows of GPU_CHECK_ROWS, "MILLISECONDS:CALLS" each, with
// ":graph" behind it where a graph launch makes the calls. Every step is marked, as a training would.
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <sstream>
#include <string>

#include "rank.h"

namespace gpu_check {
namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned kBusyBlocks = 64;
constexpr size_t kElements = 1 << 12;
// As many as the recorder's budget looks back on, so that no row is measured under the plan of the row before.
constexpr int kWarmUp = 40;

double median(std::vector<double> values) {
    std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
    return values[values.size() / 2];
}

struct Row {
    int step_ms = 0;
    int calls = 0;
    bool as_graph = false;

    std::string name() const {
        return std::to_string(step_ms) + "ms_" + std::to_string(calls) + "calls" + (as_graph ? "_graph" : "");
    }
};

std::vector<Row> rows_of(const char* text) {
    std::vector<Row> rows;
    std::istringstream list(text == nullptr ? "" : text);
    for (std::string item; std::getline(list, item, ',');) {
        Row& row = rows.emplace_back();
        char graph[8] = "";
        std::sscanf(item.c_str(), "%d:%d:%7s", &row.step_ms, &row.calls, graph);
        row.as_graph = graph[0] != 0;
    }
    return rows;
}

CUgraphExec graph_of(const Rank& r, int calls) {
    CUgraph graph = nullptr;
    CUgraphExec executable = nullptr;
    DRIVER(cuStreamBeginCapture_v2(r.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    for (int i = 0; i < calls; ++i) {
        r.all_reduce(kElements);
    }
    DRIVER(cuStreamEndCapture(r.stream, &graph));
    DRIVER(cuGraphInstantiateWithFlags(&executable, graph, 0));
    DRIVER(cuGraphDestroy(graph));
    return executable;
}

// Every rank makes the same number of steps, whatever its own clock says.
int steps_in(int64_t milliseconds, int step_ms) { return std::max(8, static_cast<int>(milliseconds / step_ms)); }

}  // namespace

int steps() {
    Rank r;
    const Kernels kernels;
    r.join();
    r.all_reduce();
    r.sync();
    const auto mark = reinterpret_cast<void (*)(int64_t)>(dlsym(RTLD_DEFAULT, "titan_step"));
    const int row_ms = client::number("GPU_CHECK_ROW_MS", 400);
    int64_t number = 0;
    for (const Row& row : rows_of(std::getenv("GPU_CHECK_ROWS"))) {
        const CUgraphExec graph = row.as_graph ? graph_of(r, row.calls) : nullptr;
        const int warm_up = std::min(kWarmUp, steps_in(row_ms / 2, row.step_ms));
        const int count = steps_in(row_ms, row.step_ms);
        std::vector<double> took_us, host_us;
        Clock::time_point measured;
        for (int step = 0; step < warm_up + count; ++step) {
            if (step == warm_up) {
                measured = Clock::now();
            }
            if (mark != nullptr) {
                mark(number++);
            }
            kernels.busy(static_cast<uint64_t>(row.step_ms) * 1'000'000, kBusyBlocks, r.stream);
            const auto issued = Clock::now();
            for (int i = 0; i < row.calls && graph == nullptr; ++i) {
                r.all_reduce(kElements);
            }
            if (graph != nullptr) {
                DRIVER(cuGraphLaunch(graph, r.stream));
            }
            host_us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - issued).count());
            r.sync();
        }
        // The mean: steps with full marks are few, and a median would not see them.
        const std::chrono::duration<double, std::micro> took = Clock::now() - measured;
        client::say("%s_step_us %.2f\n%s_host_us %.2f", row.name().c_str(), took.count() / count, row.name().c_str(),
                    median(host_us));
        if (graph != nullptr) {
            DRIVER(cuGraphExecDestroy(graph));
        }
    }
    r.leave();
    return 0;
}

}  // namespace gpu_check
