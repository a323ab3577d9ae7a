#include "whatif_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "document.h"
#include "edit_words.h"
#include "explain.h"
#include "host/mapped.h"
#include "host/words.h"
#include "layout.h"
#include "report_parts.h"
#include "run_text.h"
#include "show_filter.h"
#include "why_rank.h"

namespace titan::analyzer {
namespace {

constexpr size_t kShownWaits = 12;

// As node of the graph, for its words.
WaitNode node_of(const Evidence& evidence, const WaitThen& wait) {
    if (wait.node) {
        return evidence.graph.nodes[*wait.node];
    }
    WaitNode node;
    node.kind = wait.source < 0 && wait.target < 0 ? WaitKind::kCollective : WaitKind::kPointToPoint;
    node.communicator = wait.communicator;
    node.sequence = wait.sequence;
    node.source = wait.source;
    node.target = wait.target;
    node.op = wait.op;
    return node;
}

Sentence call_of(const Evidence& evidence, const WaitNode& node) {
    Sentence call = node_fact(evidence.run, node);
    add_members(evidence.run, node.communicator, call);
    return call;
}

Sentence why_fact(const WaitThen& wait) {
    switch (wait.why) {
        case WhyNot::kMissing: return phrase("for {}", ranks_fact(wait.missing));
        case WhyNot::kDisagree: return "all are there, and their arguments differ";
        case WhyNot::kElse: break;
    }
    return "all are there: no call keeps it";
}

Sentence wait_fact(const Evidence& evidence, const WaitThen& wait) {
    return phrase("{} {} in {}: {}", ranks_fact(wait.ranks), verb_form(wait.ranks.size(), "waits", "wait"),
                  call_of(evidence, node_of(evidence, wait)), why_fact(wait));
}

std::vector<Sentence> ends_of(const Evidence& evidence, const WhatIf& answer) {
    std::vector<Sentence> ends;
    for (uint32_t node = 0; node < evidence.graph.nodes.size(); ++node) {
        const std::vector<int> ranks = waiting_ranks(evidence.run, evidence.graph.nodes[node]);
        if (answer.ends[node] && !ranks.empty()) {
            ends.push_back(phrase("{} in {}", ranks_fact(ranks), call_of(evidence, evidence.graph.nodes[node])));
        }
    }
    return ends;
}

std::vector<Sentence> waits_of(const Evidence& evidence, const WhatIf& answer, bool that_begin) {
    std::vector<Sentence> waits;
    for (const WaitThen& wait : answer.waits) {
        if (wait.node.has_value() != that_begin) {
            waits.push_back(wait_fact(evidence, wait));
        }
    }
    return waits;
}

Section list(const char* id, const char* title, std::vector<Sentence> lines) {
    return {.id = id, .title = title, .blocks = {Items{std::move(lines), kShownWaits, "more (--json)"}}};
}

Json wait_json(const Evidence& evidence, const WaitNode& node, const std::vector<int>& ranks) {
    const bool is_pair = node.kind == WaitKind::kPointToPoint;
    const Communicator& communicator = evidence.run.communicators[node.communicator];
    const auto rank_at = [&](int comm_rank) {
        return is_pair ? Json(evidence.run.global_rank(communicator, comm_rank)) : Json(nullptr);
    };
    return {{"ranks", ranks},
            {"communicator", communicator_json(evidence.run, node.communicator)},
            {"op", op_text(node.op)},
            {"seq", node.kind == WaitKind::kCreation ? Json(nullptr) : Json(node.sequence)},
            {"from", rank_at(node.source)},
            {"to", rank_at(node.target)}};
}

Json waits_json(const Evidence& evidence, const WhatIf& answer, bool that_begin) {
    Json waits = Json::array();
    for (const WaitThen& wait : answer.waits) {
        if (wait.node.has_value() == that_begin) {
            continue;
        }
        Json json = wait_json(evidence, node_of(evidence, wait), wait.ranks);
        json["missing"] = wait.missing;
        json["why"] = wait.why == WhyNot::kMissing ? "missing" : wait.why == WhyNot::kDisagree ? "disagree" : "else";
        waits.push_back(std::move(json));
    }
    return waits;
}

Json edit_json(const Evidence& evidence, const CallEdit& edit) {
    if (edit.kind == CallEdit::Kind::kAlive) {
        return {{"edit", "alive"}, {"rank", edit.rank}};
    }
    const Communicator& communicator = evidence.run.communicators[edit.communicator];
    Json json{{"edit", edit.kind == CallEdit::Kind::kInsert ? "insert" : "remove"},
              {"rank", edit.rank},
              {"communicator", communicator_json(evidence.run, edit.communicator)},
              {"op", op_text(edit.op)},
              {"seq", edit.sequence}};
    if (edit.source >= 0) {
        json["from"] = evidence.run.global_rank(communicator, edit.source);
        json["to"] = evidence.run.global_rank(communicator, edit.target);
    }
    return json;
}

}  // namespace

WhatIfReport what_if_report(const Evidence& evidence, const std::vector<CallEdit>& edits) {
    WhatIfReport report;
    report.edits = edits;
    report.answer =
        WhatIfs(evidence.run, evidence.mismatches, evidence.graph, evidence.hang_of, Scope::kAll).ask(edits);
    std::set<int> still;
    for (uint32_t node = 0; node < evidence.graph.nodes.size(); ++node) {
        for (const int rank : waiting_ranks(evidence.run, evidence.graph.nodes[node])) {
            report.waiting.push_back(rank);
            if (!report.answer.ends[node]) {
                still.insert(rank);
            }
        }
    }
    sort_unique(report.waiting);
    std::ranges::copy_if(report.waiting, std::back_inserter(report.go_on),
                         [&](int rank) { return !still.contains(rank); });
    return report;
}

Document what_if_document(const Evidence& evidence, const WhatIfReport& report) {
    const size_t all = report.waiting.size();
    const std::string title = all == 0           ? "NOTHING WAITS"
                              : report.all_end() ? all == 1 ? "THE WAIT ENDS" : fmt::format("ALL {} RANKS GO ON", all)
                              : report.go_on.empty() ? "NO RANK GOES ON"
                                                     : fmt::format("{} OF {} RANKS GO ON", report.go_on.size(), all);
    Section head{.id = "what_if", .title = title, .tone = report.all_end() ? Tone::kGood : Tone::kCaution};
    head.lead =
        report.edits.empty() ? Sentence("as recorded") : phrase("if {}", edits_fact(evidence.run, report.edits));
    Document document{.about = outline_text(evidence.run), .sections = {std::move(head)}};
    const auto add = [&](const char* id, const char* name, std::vector<Sentence> lines) {
        if (!lines.empty()) {
            document.sections.push_back(list(id, name, std::move(lines)));
        }
    };
    add("ends", "These waits end", ends_of(evidence, report.answer));
    add("remains", "These remain", waits_of(evidence, report.answer, false));
    add("begins", "These begin", waits_of(evidence, report.answer, true));
    return document;
}

std::string what_if_json(const Evidence& evidence, const WhatIfReport& report) {
    Json json{{"schema", kJsonSchema}, {"edits", Json::array()}, {"waiting", report.waiting}, {"go_on", report.go_on}};
    for (const CallEdit& edit : report.edits) {
        json["edits"].push_back(edit_json(evidence, edit));
    }
    json["ends"] = Json::array();
    for (uint32_t node = 0; node < evidence.graph.nodes.size(); ++node) {
        const std::vector<int> ranks = waiting_ranks(evidence.run, evidence.graph.nodes[node]);
        if (report.answer.ends[node] && !ranks.empty()) {
            json["ends"].push_back(wait_json(evidence, evidence.graph.nodes[node], ranks));
        }
    }
    json["remains"] = waits_json(evidence, report.answer, false);
    json["begins"] = waits_json(evidence, report.answer, true);
    return json.dump(2) + "\n";
}

// --- edits of calls, as typed

namespace {

constexpr const char* kForms =
    "a call is written as in a report: 'all_reduce #48 on world', 'send #40 to rank 5 on pp', 'recv #7 from rank 2 on "
    "pp'";

// The words of a text, in lower case; brackets stay together with what they hold.
std::vector<std::string> words_in(std::string_view text) {
    std::vector<std::string> words;
    bool is_open = false;
    bool is_new = true;
    for (const char c : lower_case(text)) {
        if (c == ' ' && !is_open) {
            is_new = true;
            continue;
        }
        is_open = c == '(' || (is_open && c != ')');
        if (std::exchange(is_new, false)) {
            words.emplace_back();
        }
        words.back() += c;
    }
    return words;
}

std::optional<uint64_t> number_in(std::string_view text) {
    uint64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

// What the text says; what it leaves out is empty.
struct ReadCall {
    std::optional<int> rank;
    OpKind op{};
    std::string op_word;
    uint64_t sequence = 0;
    std::optional<int> from, to;
    std::string communicator;
};

bool can_be_edited(OpKind op) { return format::is_collective(op) || op == OpKind::kSend || op == OpKind::kRecv; }

OpKind op_named(const std::string& word) {
    for (const auto& row : format::rows_of(OpKind{})) {
        if (can_be_edited(row.value) && plain_name(row.name) == plain_name(word)) {
            return row.value;
        }
    }
    return OpKind{};
}

std::string all_ops() {
    std::string names;
    for (const auto& row : format::rows_of(OpKind{})) {
        if (can_be_edited(row.value)) {
            names += (names.empty() ? "" : ", ") + std::string(row.name);
        }
    }
    return names;
}

Result<ReadCall> read_call(std::string_view text) {
    const auto refuse = [&](const std::string& why) {
        return Error(fmt::format("'{}': {}; {}", printable(text), why, kForms));
    };
    std::vector<std::string> words = words_in(text);
    ReadCall call;
    size_t at = 0;
    const auto number_at = [&](size_t index, char end = '\0') -> std::optional<uint64_t> {
        if (index >= words.size()) {
            return std::nullopt;
        }
        std::string word = words[index];
        if (end != '\0' && (word.empty() || word.back() != end)) {
            return std::nullopt;
        }
        return number_in(end != '\0' ? word.substr(0, word.size() - 1) : word);
    };
    if (!words.empty() && words[0] == "rank") {
        const auto rank = number_at(1, ':');
        if (!rank || *rank > static_cast<uint64_t>(kMaxRanks)) {
            return refuse("the rank is a number, and a colon follows it");
        }
        call.rank = static_cast<int>(*rank);
        at = 2;
    }
    if (at >= words.size()) {
        return refuse("no call is in it");
    }
    call.op_word = words[at++];
    call.op = op_named(call.op_word);
    if (call.op == OpKind{}) {
        return Error(fmt::format("'{}': there is no call '{}'; there are {}", printable(text), printable(call.op_word),
                                 all_ops()));
    }
    const auto sequence =
        at < words.size() && words[at].starts_with('#') ? number_in(words[at].substr(1)) : std::nullopt;
    if (!sequence) {
        return refuse("the number of the call is missing");
    }
    call.sequence = *sequence;
    ++at;
    while (at < words.size()) {
        const std::string word = words[at++];
        if (word == "from" || word == "to") {
            at += at < words.size() && words[at] == "rank" ? 1 : 0;
            const auto rank = number_at(at++);
            if (!rank || *rank > static_cast<uint64_t>(kMaxRanks)) {
                return refuse(fmt::format("a rank follows '{}'", word));
            }
            (word == "from" ? call.from : call.to) = static_cast<int>(*rank);
        } else if (word == "on") {
            for (; at < words.size() && words[at] != "from" && words[at] != "to"; ++at) {
                call.communicator += (call.communicator.empty() ? "" : " ") + words[at];
            }
        } else {
            return refuse(fmt::format("'{}' is not expected there", printable(word)));
        }
    }
    return call.communicator.empty() ? Result<ReadCall>(refuse("no communicator is in it")) : Result<ReadCall>(call);
}

// "tp", "tp (ranks 4-5)".
struct ReadCommunicator {
    std::string name;
    std::string ranks;  // empty: not said
};

ReadCommunicator read_communicator(const std::string& text) {
    const size_t bracket = text.find(" (");
    return bracket == std::string::npos || text.back() != ')'
               ? ReadCommunicator{text, ""}
               : ReadCommunicator{text.substr(0, bracket), text.substr(bracket + 2, text.size() - bracket - 3)};
}

bool is_wanted(const Run& run, uint32_t index, const ReadCommunicator& wanted) {
    const Communicator& communicator = run.communicators[index];
    constexpr size_t kLeastDigits = 4;
    const bool is_name = is_called(communicator_text(communicator), wanted.name) ||
                         is_called(communicator.name, wanted.name) ||
                         (wanted.name.size() >= kLeastDigits && id_text(communicator.id).starts_with(wanted.name));
    const std::vector<int> ranks = member_ranks(run, communicator);
    return is_name && (wanted.ranks.empty() || wanted.ranks == titan::ranks_text(ranks) ||
                       wanted.ranks == lower_case(ranks_text(run, ranks)));
}

std::string list_of(const Run& run, const std::vector<uint32_t>& communicators) {
    return listed(mapped(communicators, [&](uint32_t index) { return distinct_text(run, index); }), 12);
}

Result<uint32_t> communicator_of(const Run& run, int rank, const std::string& wanted) {
    std::vector<uint32_t> its;
    std::vector<uint32_t> fitting;
    std::vector<uint32_t> exact;
    const ReadCommunicator named = read_communicator(wanted);
    for (uint32_t index = 0; index < run.communicators.size(); ++index) {
        if (comm_rank_of(run, index, rank) < 0) {
            continue;
        }
        its.push_back(index);
        if (!is_wanted(run, index, named)) {
            continue;
        }
        fitting.push_back(index);
        if (lower_case(run.communicators[index].name) == named.name) {
            exact.push_back(index);
        }
    }
    const std::vector<uint32_t>& chosen = exact.size() == 1 ? exact : fitting;
    if (chosen.empty()) {
        return Error(its.empty() ? fmt::format("rank {} is in no communicator that is on record", rank)
                                 : fmt::format("rank {} is in no communicator '{}'; it is in {}", rank,
                                               printable(wanted), list_of(run, its)));
    }
    if (chosen.size() > 1) {
        return Error(fmt::format("rank {} is in several communicators '{}': say which of {}", rank, printable(wanted),
                                 list_of(run, chosen)));
    }
    return chosen.front();
}

Result<CallEdit> edit_of(const Run& run, CallEdit::Kind kind, int rank, const ReadCall& call) {
    if (const std::string unknown = unknown_rank(run, rank); !unknown.empty()) {
        return Error(unknown);
    }
    const Result<uint32_t> communicator = communicator_of(run, rank, call.communicator);
    if (!communicator) {
        return communicator.error();
    }
    CallEdit edit{kind, rank, *communicator, call.sequence, call.op};
    if (format::is_collective(call.op)) {
        return call.from || call.to ? Result<CallEdit>(Error(fmt::format(
                                          "{} is a collective: it goes from no rank to no rank", op_text(call.op))))
                                    : Result<CallEdit>(edit);
    }
    const bool sends = call.op == OpKind::kSend;
    const std::optional<int>& self = sends ? call.from : call.to;
    const std::optional<int>& peer = sends ? call.to : call.from;
    if (self && *self != rank) {
        return Error(sends ? fmt::format("a send is a call of the rank that it comes from: {}, not {}", *self, rank)
                           : fmt::format("a recv is a call of the rank that it goes to: {}, not {}", *self, rank));
    }
    if (!peer) {
        return Error(sends ? "a send goes to a rank: 'send #40 to rank 5 on pp'"
                           : "a recv comes from a rank: 'recv #7 from rank 2 on pp'");
    }
    const int other = comm_rank_of(run, *communicator, *peer);
    if (other < 0) {
        return Error(fmt::format("rank {} is not in {}", *peer, distinct_text(run, *communicator)));
    }
    const int own = comm_rank_of(run, *communicator, rank);
    edit.source = sends ? own : other;
    edit.target = sends ? other : own;
    return edit;
}

std::string impossible(const Run& run, const std::vector<CallEdit>& edits, const CallEdit& edit) {
    const bool inserts = edit.kind == CallEdit::Kind::kInsert;
    const std::string words = edited_call_words(run, edit);
    const MemberRef ref = member_of_rank(run, edit.communicator, edit.rank);
    if (!ref.known()) {
        return inserts ? std::string()
                       : fmt::format("rank {} left no record: there is no call of it to remove", edit.rank);
    }
    const EditedNumbers::Line line = EditedNumbers::line_of(ref, edit);
    const std::optional<uint64_t> made = calls_made(run, line);
    if (!made) {
        return {};
    }
    if (!inserts) {
        const CallSignature* const call =
            format::is_collective(edit.op) ? run.process(ref).signature_at(run.member(ref), edit.sequence) : nullptr;
        if (edit.sequence >= *made) {
            return fmt::format("rank {} has not made {}: its next call there is #{}", edit.rank, words, *made);
        }
        return call == nullptr || call->kind == edit.op ? std::string()
                                                        : fmt::format("rank {} has not made {}: that call of it is {}",
                                                                      edit.rank, words, op_text(call->kind));
    }
    uint64_t after = *made;
    for (const CallEdit& other : edits) {
        const bool same_line = other.kind != CallEdit::Kind::kAlive && other.rank == edit.rank &&
                               other.communicator == edit.communicator && EditedNumbers::line_of(ref, other) == line;
        if (same_line && other.kind == CallEdit::Kind::kRemove) {
            --after;
        } else if (same_line && other.sequence < edit.sequence) {
            ++after;
        }
    }
    return edit.sequence <= after
               ? std::string()
               : fmt::format("rank {} cannot make {} yet: its next call there is #{}", edit.rank, words, after);
}

}  // namespace

std::string unknown_rank(const Run& run, int rank) {
    const std::vector<int> known = ranks_of_run(run);
    return std::ranges::binary_search(known, rank)
               ? std::string()
               : fmt::format("there is no rank {} in {}; there {} {}", rank, run_title(run),
                             verb_form(known.size(), "is", "are"), ranks_text(known));
}

Result<std::vector<CallEdit>> read_call_edits(const Run& run, CallEdit::Kind kind, const std::vector<int>& ranks,
                                              std::string_view text) {
    const Result<ReadCall> call = read_call(text);
    if (!call) {
        return call.error();
    }
    const std::vector<int> whose = call->rank ? std::vector<int>{*call->rank} : ranks;
    if (whose.empty()) {
        return Error(
            fmt::format("'{}': whose call is it? --rank 3, or 'rank 3: {}'", printable(text), printable(text)));
    }
    std::vector<CallEdit> edits;
    for (const int rank : whose) {
        const Result<CallEdit> edit = edit_of(run, kind, rank, *call);
        if (!edit) {
            return edit.error();
        }
        edits.push_back(*edit);
    }
    return edits;
}

std::string impossible_edit(const Run& run, const std::vector<CallEdit>& edits) {
    for (const CallEdit& edit : edits) {
        const bool twice = std::ranges::count(edits, edit) > 1;
        std::string why = edit.kind == CallEdit::Kind::kAlive ? std::string()
                          : twice
                              ? fmt::format("{} is there twice for rank {}", edited_call_words(run, edit), edit.rank)
                              : impossible(run, edits, edit);
        if (!why.empty()) {
            return why;
        }
    }
    return {};
}

}  // namespace titan::analyzer
