#include "stacks_of.h"

#include <algorithm>

namespace titan::analyzer {
namespace {

// The stacks that a digest has kept.
ProcessStacks from_digest(const Process& process) {
    ProcessStacks stacks;
    for (const ThreadPosition& position : process.positions) {
        ThreadStack& thread = stacks.threads.emplace_back();
        thread.tid = position.thread;
        thread.name = process.text(position.name);
        thread.held_gil = position.held_gil;
        for (const uint32_t frame : position.frames) {
            thread.merged.frames.push_back(process.text(frame));
        }
        if (position.frames.empty()) {
            thread.merged.frames.push_back("(" + process.text(position.why_none) + ")");
        }
    }
    stacks.notes.emplace_back(stacks.threads.empty()
                                  ? "no stacks in the digest"
                                  : "a digest keeps only the stacks of the threads that matter most");
    return stacks;
}

ProcessStacks from_dump(const OpenedSource& opened, Symbols& symbols) {
    ProcessStacks stacks;
    if (opened.stacks.empty()) {
        stacks.notes.emplace_back(
            "no stacks in the dump: it was made with TITANTRACE_STACKS=off, or from the ring of a dead process");
    } else if (auto read = read_stacks(opened.stacks, symbols, [](const auto&) { return true; })) {
        stacks = std::move(*read);
    } else {
        stacks.notes.push_back(read.error().text());
    }
    return stacks;
}

void add_children(const Process& process, ProcessStacks& stacks) {
    for (const ChildProcess& child : process.children) {
        if (child.ended_ns != 0) {
            continue;
        }
        DumpedChild& stack = stacks.children.emplace_back();
        stack.pid = child.pid;
        stack.name = process.text(child.name);
        stack.state = child.state;
        stack.wait_channel = process.text(child.wait_channel);
        stack.cpu_ns = child.cpu_ns;
        for (const uint32_t frame : child.frames) {
            stack.frames.push_back(process.text(frame));
        }
    }
}

}  // namespace

ProcessStacks stacks_of(const Process& process, const OpenedSource* opened, Symbols& symbols) {
    ProcessStacks stacks;
    if (process.source.is_flight_recorder) {
        stacks.notes.emplace_back("PyTorch's Flight Recorder keeps no stacks of threads");
    } else if (process.source.is_digest) {
        stacks = from_digest(process);
    } else if (opened != nullptr) {
        stacks = from_dump(*opened, symbols);
    }
    stacks.rank = process.rank;
    stacks.pid = process.pid;
    stacks.host = process.host;
    add_children(process, stacks);
    const auto main = std::find_if(stacks.threads.begin(), stacks.threads.end(),
                                   [&](const ThreadStack& thread) { return thread.tid == process.pid; });
    if (main != stacks.threads.end()) {
        std::rotate(stacks.threads.begin(), main, std::next(main));
    }
    return stacks;
}

}  // namespace titan::analyzer
