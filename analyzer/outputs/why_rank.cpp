#include "why_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <utility>

#include "document.h"
#include "explain.h"
#include "host/mapped.h"
#include "host/words.h"
#include "layout.h"
#include "rank_state.h"
#include "report_parts.h"
#include "thread_position.h"

namespace titan::analyzer {
namespace {

constexpr size_t kMostOfLine = 600;
constexpr size_t kMostStops = 6;

bool contains(const std::vector<int>& ranks, int rank) { return std::ranges::find(ranks, rank) != ranks.end(); }

class Explorer {
  public:
    Explorer(const Evidence& evidence, const Diagnosis& diagnosis, int rank)
        : evidence_(evidence), run_(evidence.run), diagnosis_(diagnosis) {
        why_.rank = rank;
        why_.process = evidence.process_of_rank[rank];
        why_.about = about();
        why_.node = longest_wait();
    }

    WhyRank explore() {
        why_.doing = doing();
        why_.waits = why_.node ? waits_in(*why_.node) : waits_unseen();
        if (why_.node && why_.about != nullptr && !contains(why_.about->ranks, why_.rank)) {
            why_.by_way_of = way_to(why_.about->ranks);
        }
        why_.leads = leads();
        return std::move(why_);
    }

  private:
    const Finding* about() const {
        for (const auto role : {&Finding::ranks, &Finding::victims}) {
            for (const Finding& finding : diagnosis_.findings) {
                if (contains(finding.*role, why_.rank)) {
                    return &finding;
                }
            }
        }
        return nullptr;
    }

    int rank_of(MemberRef member) const { return analyzer::rank_of(run_.process(member), member.row); }

    const Waiter* waiter_in(uint32_t index) const {
        for (const Waiter& waiter : evidence_.graph.nodes[index].waiting) {
            if (rank_of(waiter.member) == why_.rank) {
                return &waiter;
            }
        }
        return nullptr;
    }

    std::optional<uint32_t> longest_wait() const {
        std::optional<uint32_t> longest;
        if (why_.process != nullptr && why_.process->is_gone()) {
            return longest;
        }
        for (uint32_t index = 0; index < evidence_.graph.nodes.size(); ++index) {
            const Waiter* const waiter = waiter_in(index);
            if (waiter != nullptr && (!longest || waiter->since_ns < waiter_in(*longest)->since_ns)) {
                longest = index;
            }
        }
        return longest;
    }

    Sentence doing() const {
        Sentence sentence = rank_fact(why_.rank);
        add_places(run_, {why_.rank}, sentence);
        if (why_.process == nullptr) {
            return sentence += Sentence(": no dump and no ring, so what it does is not known");
        }
        const Process& process = *why_.process;
        sentence += Sentence(process.host.empty() ? std::string() : " on " + process.host);
        sentence += Sentence(process.pid == 0 ? std::string() : fmt::format(" (pid {})", process.pid));
        const ThreadPosition* const position = process.is_gone() ? nullptr : working_position(process);
        const std::string place = position == nullptr ? std::string() : place_text(process, *position);
        return sentence += phrase(": {}{}", state_texts(evidence_, process).with_times,
                                  place.empty() ? std::string() : "; is in " + place);
    }

    // Who is missing, by the reason.
    Sentence waits_in(uint32_t index) {
        const WaitNode& node = evidence_.graph.nodes[index];
        Sentence sentence =
            phrase("{}, for {}", own_call_fact(run_, node, why_.rank), duration_fact(waiter_in(index)->age_ns));
        std::map<AbsenceReason, std::vector<Absence>> absent;
        for (const Absence& absence : node.absent) {
            absent[absence.reason].push_back(absence);
        }
        const char* separator = ": ";
        for (const auto& [reason, absences] : absent) {
            sentence += phrase("{}{} {}", std::exchange(separator, "; "), absent_fact(absences),
                               words_of(reason, absences.size()));
        }
        std::vector<int> behind = mapped(node.blocked, [&](const Blocked& blocked) { return rank_of(blocked.member); });
        if (!behind.empty()) {
            sentence += phrase("{}{} {} called it, but {} behind other work", separator, ranks_fact(behind),
                               verb_form(behind.size(), "has", "have"),
                               verb_form(behind.size(), "its stream is", "their streams are"));
        }
        for (const Absence& absence : node.absent) {
            if (absence.global_rank >= 0) {
                behind.push_back(absence.global_rank);
            }
        }
        sort_unique(behind);
        why_.waits_for = std::move(behind);
        return sentence;
    }

    Sentence waits_unseen() {
        if (why_.process == nullptr) {
            return "not known without a record";
        }
        if (why_.process->is_gone()) {
            return "nothing: it is gone";
        }
        if (why_.about != nullptr && contains(why_.about->victims, why_.rank)) {
            why_.waits_for = why_.about->ranks;
            return phrase("{}, in no call of NCCL that is on record", ranks_fact(why_.waits_for));
        }
        for (const Pending& pending : diagnosis_.waiting) {
            if (contains(pending.ranks, why_.rank)) {
                why_.waits_for = pending.missing;
                return pending.summary;
            }
        }
        return "nothing that is on record";
    }

    // The ranks between this one and the first of `named`: each waits for the next.
    std::vector<int> way_to(const std::vector<int>& named) const {
        std::map<uint32_t, const Edge*> came_by = {{*why_.node, nullptr}};
        std::deque<uint32_t> open = {*why_.node};
        for (; !open.empty(); open.pop_front()) {
            if (holds_up(open.front(), named)) {
                std::vector<int> ranks;
                for (uint32_t node = open.front(); came_by[node] != nullptr; node = came_by[node]->from) {
                    ranks.insert(ranks.begin(), rank_of(came_by[node]->via));
                }
                return ranks;
            }
            for (const uint32_t index : evidence_.graph.edges_of[open.front()]) {
                const Edge& edge = evidence_.graph.edges[index];
                if (came_by.try_emplace(edge.to, &edge).second) {
                    open.push_back(edge.to);
                }
            }
        }
        return {};
    }

    bool holds_up(uint32_t index, const std::vector<int>& named) const {
        const WaitNode& node = evidence_.graph.nodes[index];
        return std::ranges::any_of(node.absent,
                                   [&](const Absence& absence) { return contains(named, absence.global_rank); }) ||
               std::ranges::any_of(node.blocked,
                                   [&](const Blocked& blocked) { return contains(named, rank_of(blocked.member)); });
    }

    Sentence leads() const {
        if (why_.about == nullptr) {
            return diagnosis_.waiting.empty() ? phrase("nobody: no finding is about {}", rank_fact(why_.rank))
                                              : Sentence("nobody yet: nothing is overdue");
        }
        const Finding& finding = *why_.about;
        Sentence sentence = contains(finding.ranks, why_.rank) ? phrase("{} itself", rank_fact(why_.rank))
                                                               : Sentence(ranks_fact(finding.ranks));
        std::string way;
        for (size_t i = 0; i < std::min(kMostStops, why_.by_way_of.size()); ++i) {
            way += fmt::format("{}{}", i == 0 ? ", by way of rank " : ", then ", why_.by_way_of[i]);
        }
        if (why_.by_way_of.size() > kMostStops) {
            way += fmt::format(", then {} more", why_.by_way_of.size() - kMostStops);
        }
        return sentence +=
               phrase("{}: {} ({}): {}", way, name_of(finding.kind), name_of(finding.confidence), finding.summary);
    }

    const Evidence& evidence_;
    const Run& run_;
    const Diagnosis& diagnosis_;
    WhyRank why_;
};

std::vector<std::string> lines_of(const WhyRank& why) {
    return {why.doing.text(), "waits for: " + why.waits.text(), "leads to: " + why.leads.text()};
}

Json wait_json(const Run& run, const Evidence& evidence, const WhyRank& why) {
    if (!why.node) {
        return nullptr;
    }
    const Finding place = evidence.finding_at({}, *why.node);
    Json json{{"communicator", communicator_json(run, place.communicator)},
              {"op", place.op},
              {"seq", place.sequence == kNoSequence ? Json(nullptr) : Json(place.sequence)}};
    for (const Waiter& waiter : evidence.graph.nodes[*why.node].waiting) {
        if (rank_of(run.process(waiter.member), waiter.member.row) == why.rank) {
            json["since_ns"] = waiter.since_ns;
            json["waited_ns"] = waiter.age_ns;
        }
    }
    return json;
}

}  // namespace

std::vector<int> ranks_of_run(const Run& run) {
    std::vector<int> all = run.ranks;
    all.insert(all.end(), run.missing_ranks.begin(), run.missing_ranks.end());
    if (run.world_size > 0) {
        const size_t known = all.size();
        all.resize(known + static_cast<size_t>(run.world_size));
        std::iota(all.begin() + static_cast<std::ptrdiff_t>(known), all.end(), 0);
    }
    sort_unique(all);
    return all;
}

WhyRank why_rank(const Evidence& evidence, const Diagnosis& diagnosis, int rank) {
    return Explorer(evidence, diagnosis, rank).explore();
}

std::string why_text(const WhyRank& why) {
    std::string text;
    for (const std::string& line : lines_of(why)) {
        text += printable(shortened(line, kMostOfLine)) + "\n";
    }
    return text;
}

std::string why_json(const Run& run, const Evidence& evidence, const WhyRank& why) {
    const bool has_host = why.process != nullptr && !why.process->host.empty();
    const bool has_pid = why.process != nullptr && why.process->pid != 0;
    Json json;
    json["schema"] = kJsonSchema;
    json["rank"] = why.rank;
    json["host"] = has_host ? Json(why.process->host) : Json(nullptr);
    json["pid"] = has_pid ? Json(why.process->pid) : Json(nullptr);
    json["waits_in"] = wait_json(run, evidence, why);
    json["waits_for"] = why.waits_for;
    json["by_way_of"] = why.by_way_of;
    json["leads_to"] = why.about == nullptr ? std::vector<int>() : why.about->ranks;
    json["finding"] = why.about == nullptr ? Json(nullptr)
                                           : Json{{"kind", name_of(why.about->kind)},
                                                  {"confidence", name_of(why.about->confidence)},
                                                  {"summary", why.about->summary.text()}};
    json["lines"] = lines_of(why);
    return json.dump(2) + "\n";
}

}  // namespace titan::analyzer
