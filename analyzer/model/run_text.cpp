#include "run_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "host/mapped.h"
#include "host/words.h"

namespace titan::analyzer {
namespace {
template <typename E>
std::string known_or_number(E value, const char* what) {
    const std::string_view name = format::name_of(value);
    return name.empty() ? fmt::format("{} {}", what, static_cast<unsigned>(value)) : std::string(name);
}
}  // namespace

std::string op_text(OpKind kind) { return known_or_number(kind, "operation"); }

std::string datatype_text(Datatype datatype) { return known_or_number(datatype, "datatype"); }

std::string reduction_text(Reduction reduction) { return known_or_number(reduction, "reduction"); }

std::string recorded_ranks_text(const Run& run) {
    const size_t world = std::max(run.ranks.size(), static_cast<size_t>(std::max(run.world_size, 0)));
    return fmt::format("{} of {}", run.ranks.size(), counted(world, "rank"));
}

std::string short_id_text(uint64_t id) { return id_text(id).substr(0, 8); }

std::string communicator_name(const Communicator& communicator) {
    return communicator.name.empty() ? short_id_text(communicator.id) : communicator.name;
}

std::string communicator_text(const Communicator& communicator) {
    const std::string& name = communicator.name;
    if (name.empty()) {
        return "communicator " + short_id_text(communicator.id);
    }
    // PyTorch numbers the groups that the program gave no name, or calls them by a hash.
    constexpr size_t kHashDigits = 40;
    if (name.size() == kHashDigits && name.find_first_not_of("0123456789abcdef") == std::string::npos) {
        return "process group " + name.substr(0, 8);
    }
    return (name.find_first_not_of("0123456789") == std::string::npos ? "process group " : "") + name;
}

std::string sequence_text(OpKind kind, uint64_t sequence) {
    const bool is_numbered = sequence != kNoSequence && format::class_of(kind) != format::OpClass::lifecycle;
    return is_numbered ? fmt::format("#{}", sequence) : std::string();
}

std::string numbered_op_text(OpKind kind, uint64_t sequence) {
    const std::string number = sequence_text(kind, sequence);
    return op_text(kind) + (number.empty() ? "" : " " + number);
}

std::string call_text(const Communicator& communicator, OpKind kind, uint64_t sequence) {
    return numbered_op_text(kind, sequence) + " on " + communicator_text(communicator);
}

std::string arguments_text(const Entry& entry) {
    if (entry.arguments_lost) {
        return "with what is overwritten";
    }
    std::string text = fmt::format("{} x {}", datatype_text(entry.datatype), grouped_digits(entry.count));
    if (entry.reduction != Reduction::kNoReduction) {
        text += ", " + reduction_text(entry.reduction);
    }
    // The peer is said by who waits for whom, in ranks of the job; a root as the program passes it.
    if (entry.peer >= 0 && format::class_of(entry.kind) == format::OpClass::rooted) {
        text += fmt::format(", root {} of the communicator", entry.peer);
    }
    return text;
}

std::string site_text(const Process& process, const Entry& entry) {
    return entry.site == 0 ? std::string() : ", called at " + process.text(entry.site);
}

std::vector<std::string> observing_texts(const Run& run) {
    std::map<std::string, std::vector<const Process*>> ways;
    for (const Process& process : run.processes) {
        const Observing& seen = process.observing;
        if (seen.budget == 0 || seen.full_of == 1) {
            continue;
        }
        const std::string full =
            seen.full_of == 0  ? ""
            : process.step < 0 ? fmt::format("stream writes around {} launches of {}, ", format::kUnmarkedUnitLaunches,
                                             format::kUnmarkedUnitLaunches * seen.full_of)
                               : fmt::format("stream writes in one step of {}, ", seen.full_of);
        const std::string light = seen.light_of > 1 ? fmt::format("events around one launch in {}", seen.light_of)
                                                    : "events around each launch";
        ways[full + light + (full.empty() ? "" : " of the others")].push_back(&process);
    }
    std::vector<std::string> texts;
    for (const auto& [way, processes] : ways) {
        std::vector<int> ranks = mapped(processes, &Process::rank);
        const Observing& seen = processes.front()->observing;
        texts.push_back(fmt::format("{}: the GPU is observed by {} (TITANTRACE_BUDGET={:g}, for {} in {})",
                                    ranks_text(ranks), way, seen.budget / 1e4, many_counted(seen.unit_launches, "call"),
                                    duration_text(seen.unit_ns)));
    }
    return texts;
}

std::string end_text(const Process& process) {
    const Ending& ending = process.ending;
    if (process.liveness == Liveness::kExited && ending.left_ns != 0) {
        return ending.exit_status >= 0
                   ? fmt::format("exited with status {} at {}", ending.exit_status, fine_date_text(ending.left_ns))
                   : fmt::format("exited at {}", fine_date_text(ending.left_ns));
    }
    if (ending.asked()) {
        const std::string sender = ending.sender != 0 ? fmt::format(" from pid {}", ending.sender) : std::string();
        return fmt::format("was told to end by {}{} at {}", signal_text(ending.signal), sender,
                           fine_date_text(ending.asked_ns));
    }
    return ending.seen_ns == 0 ? std::string()
                               : fmt::format("was last seen alive at {}", fine_date_text(ending.seen_ns));
}

std::string end_order_text(const Run& run, const Process& process) {
    const Process* next = nullptr;
    const auto end_of = [](const Process& other) {
        return other.ending.asked() ? other.ending.asked_ns : other.ending.seen_ns;
    };
    for (const Process& other : run.processes) {
        if (other.liveness == Liveness::kEnded && (next == nullptr || end_of(other) < end_of(*next))) {
            next = &other;
        }
    }
    const int64_t own_ns = process.ending.left_ns != 0 ? process.ending.left_ns : process.ending.seen_ns;
    if (own_ns == 0) {
        return {};
    }
    std::string text = fmt::format("rank {} {}", process.rank, end_text(process));
    if (next != nullptr && end_of(*next) >= own_ns) {
        text += fmt::format(", {} before the first of the others ended: rank {} {}",
                            duration_text(end_of(*next) - own_ns), next->rank, end_text(*next));
    }
    return text;
}

}  // namespace titan::analyzer
