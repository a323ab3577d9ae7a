#include "repeated_sites.h"

#include <algorithm>
#include <set>

#include "host_threads.h"
#include "run_text.h"

namespace titan::analyzer {
namespace {

constexpr size_t kMostRanks = 64;  // whose call sites the evidence may have

struct LongestFirst {
    bool operator()(const std::string& a, const std::string& b) const {
        return a.size() != b.size() ? a.size() > b.size() : a < b;
    }
};
using Sites = std::set<std::string, LongestFirst>;  // ", called at train.py:9 in call, from train.py:157 in step"

void add_sites(const Run& run, const std::vector<int>& ranks, Sites& sites) {
    for (size_t i = 0; i < std::min(ranks.size(), kMostRanks); ++i) {
        const Process* const process = process_of_rank(run, ranks[i]);
        std::set<uint32_t> known{0};
        for (size_t e = 0; process != nullptr && e < process->entries.size(); ++e) {
            if (known.insert(process->entries[e].site).second) {
                sites.insert(site_text(*process, process->entries[e]));
            }
        }
    }
}

std::set<int> ranks_in(const Sentence& line) {
    std::set<int> ranks;
    for (size_t i = 0; i < line.parts().size(); ++i) {
        if (const auto* const fact = line.fact<RanksFact>(i)) {
            ranks.insert(fact->ranks.begin(), fact->ranks.end());
        }
    }
    return ranks;
}

bool has(const Sentence& line, const std::string& site) { return line.text().find(site) != std::string::npos; }

void take_out(Sentence& line, const std::string& site) {
    for (size_t i = 0; i < line.parts().size(); ++i) {
        std::string words = line.parts()[i].words;
        if (const size_t at = words.find(site); at != std::string::npos) {
            line.reword(i, words.erase(at, site.size()));
        }
    }
}

}  // namespace

void tell_sites_once(const Run& run, std::vector<Finding>& findings) {
    for (Finding& finding : findings) {
        Sites sites;
        add_sites(run, finding.ranks, sites);
        add_sites(run, finding.victims, sites);
        for (const std::string& site : sites) {
            std::set<int> told;  // ranks of which it is told that they made a call there
            for (Sentence& line : finding.evidence) {
                if (!has(line, site)) {
                    continue;
                }
                const std::set<int> here = ranks_in(line);
                if (!here.empty() && std::ranges::includes(told, here)) {
                    take_out(line, site);
                }
                told.insert(here.begin(), here.end());
            }
        }
    }
}

std::string without_told_site(const Run& run, const Finding& finding, int rank, std::string state) {
    Sites sites;
    add_sites(run, {rank}, sites);
    for (const std::string& site : sites) {
        const size_t at = state.find(site);
        if (at != std::string::npos &&
            std::ranges::any_of(finding.evidence, [&](const Sentence& line) { return has(line, site); })) {
            return state.erase(at, site.size());
        }
    }
    return state;
}

}  // namespace titan::analyzer
