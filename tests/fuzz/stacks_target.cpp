// Any bytes as the image of stacks in a dump: every report of them, then what a verdict and a digest keep of them.
#include "analysis.h"
#include "stacks_report.h"
#include "thread_position.h"

using namespace titan;

std::string fuzz::read(std::span<const unsigned char> file) {
    analyzer::Symbols symbols(analyzer::Symbols::Search::kNearby);
    auto stacks = analyzer::read_stacks(std::as_bytes(file), symbols, [](const auto&) { return true; });
    if (!stacks) {
        return stacks.error().text();
    }
    size_t frames = 0;
    for (const analyzer::ThreadStack& thread : stacks->threads) {
        frames += thread.merged.frames.size();
    }
    const size_t threads = stacks->threads.size();
    const std::vector all{std::move(*stacks)};
    for (const bool list : {false, true}) {
        analyzer::stacks_report(all, symbols.problems(), {.list = list, .all_threads = true}, {});
    }
    analyzer::stacks_json_report(all, symbols.problems());
    std::vector<analyzer::Process> processes(1);
    processes.front().pid = 100;
    processes.front().texts.emplace_back();
    processes.front().liveness = analyzer::Liveness::kAlive;
    analyzer::decode_positions(std::as_bytes(file), symbols, processes.front());
    analyze(std::move(processes));
    return "read: " + std::to_string(threads) + " threads, " + std::to_string(frames) + " frames";
}

bool fuzz::seal(Bytes&) { return false; }
