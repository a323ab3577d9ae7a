#include "edit_words.h"

#include <fmt/format.h>

#include <algorithm>

#include "host/words.h"
#include "layout.h"
#include "run_text.h"

namespace titan::analyzer {
namespace {

Sentence edit_fact(const Run& run, const CallEdit& edit) {
    const Sentence call(edited_call_words(run, edit), CallFact{edit.communicator, op_text(edit.op), edit.sequence});
    return edit.kind == CallEdit::Kind::kInsert ? phrase("{} makes {}, too", rank_fact(edit.rank), call)
                                                : phrase("{} leaves out {}", rank_fact(edit.rank), call);
}

std::vector<int> alive_in(const std::vector<CallEdit>& edits) {
    std::vector<int> alive;
    for (const CallEdit& edit : edits) {
        if (edit.kind == CallEdit::Kind::kAlive) {
            alive.push_back(edit.rank);
        }
    }
    sort_unique(alive);
    return alive;
}

}  // namespace

std::string edited_call_words(const Run& run, const CallEdit& edit) {
    const std::string where = "on " + distinct_text(run, edit.communicator);
    const Communicator& communicator = run.communicators[edit.communicator];
    const std::string call = fmt::format("{} #{}", op_text(edit.op), edit.sequence);
    if (edit.op == OpKind::kSend) {
        return fmt::format("{} to rank {} {}", call, run.global_rank(communicator, edit.target), where);
    }
    if (edit.op == OpKind::kRecv) {
        return fmt::format("{} from rank {} {}", call, run.global_rank(communicator, edit.source), where);
    }
    return fmt::format("{} {}", call, where);
}

Sentence edits_fact(const Run& run, const std::vector<CallEdit>& edits) {
    constexpr size_t kMostEdits = 6;
    std::vector<Sentence> facts;
    for (const CallEdit& edit : edits) {
        if (edit.kind != CallEdit::Kind::kAlive) {
            facts.push_back(edit_fact(run, edit));
        }
    }
    if (const std::vector<int> alive = alive_in(edits); !alive.empty()) {
        facts.push_back(phrase("{} [goes|go] on", ranks_fact(alive)));
    }
    Sentence sentence;
    for (size_t i = 0; i < std::min(facts.size(), kMostEdits); ++i) {
        sentence += phrase("{}{}", i == 0 ? "" : " and ", facts[i]);
    }
    return facts.size() > kMostEdits ? sentence += Sentence(fmt::format(" and {} more", facts.size() - kMostEdits))
                                     : sentence;
}

std::string edit_options(const Run& run, const std::vector<CallEdit>& edits) {
    std::string options;
    for (const CallEdit& edit : edits) {
        if (edit.kind != CallEdit::Kind::kAlive) {
            const std::string call = fmt::format("rank {}: {}", edit.rank, edited_call_words(run, edit));
            options +=
                fmt::format(" --{} {}", edit.kind == CallEdit::Kind::kInsert ? "insert" : "remove", shell_quoted(call));
        }
    }
    if (const std::vector<int> alive = alive_in(edits); !alive.empty()) {
        options += " --alive " + rank_ranges(alive);
    }
    return options.empty() ? options : options.substr(1);
}

}  // namespace titan::analyzer
