// Any bytes as an archive of records.
#include "named_stacks.h"
#include "take_record.h"
#include "target.h"

using namespace titan;

std::string fuzz::read(std::span<const unsigned char> file) {
    auto archive = analyzer::Archive::open(std::as_bytes(file));
    if (!archive) {
        return archive.error().text();
    }
    static analyzer::Symbols& symbols = *new analyzer::Symbols(analyzer::Symbols::Search::kNearby);
    static analyzer::GroupRanks& groups = *new analyzer::GroupRanks;
    static analyzer::Loader& with = *new analyzer::Loader{symbols, groups};
    analyzer::LoadOutcome outcome;
    analyzer::load_archive("job.tar", *archive, with, outcome);
    return outcome.problems.empty() ? "read: " + std::to_string(outcome.processes.size()) + " processes"
                                    : outcome.problems.front();
}

bool fuzz::seal(Bytes&) { return false; }
