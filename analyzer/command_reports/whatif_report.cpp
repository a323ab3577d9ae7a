#include "whatif_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "document_json.h"
#include "edit_words.h"
#include "explain.h"
#include "host/words.h"
#include "json_schema.h"
#include "layout.h"
#include "report_parts.h"
#include "run_text.h"

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
    std::copy_if(report.waiting.begin(), report.waiting.end(), std::back_inserter(report.go_on),
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

}  // namespace titan::analyzer
