#include "dump/other_nodes.h"

#include <algorithm>
#include <chrono>

#include "formats/layout/dump_name.h"
#include "formats/ring/ring_image.h"
#include "host/words.h"
#include "node/as_user.h"
#include "node/proc.h"

namespace titan::tools {
namespace {

namespace files = std::filesystem;

// A tracer asks other nodes at most this often, so what they wrote since is as new as it gets.
constexpr std::chrono::seconds kPauseOfAsking{5};

bool records_some_ranks_only(const NodeProcess& process) {
    const std::vector<std::string> environment = environment_of(process.header.pid);
    return std::any_of(environment.begin(), environment.end(), [](const std::string& variable) {
        constexpr std::string_view kRanks = "TITANTRACE_RANKS=";
        return variable.starts_with(kRanks) && variable.size() > kRanks.size();
    });
}

}  // namespace

OtherNodes::OtherNodes(const std::vector<NodeProcess>& local) {
    std::set<int32_t> here;
    int32_t world_size = 0;
    for (const NodeProcess& process : local) {
        here.insert(process.header.rank);
        world_size = std::max(world_size, format::plausible_rank(process.header.world_size));
        has_unknown_ranks_ = has_unknown_ranks_ || records_some_ranks_only(process);
        const std::string own(format::fixed_text(process.header.dump_directory));
        if (directory_.empty() && own.starts_with('/')) {
            owner_ = process.directory.owner;
            directory_ = files::path(own) / safe_file_name(process.run());
        }
    }
    for (int32_t rank = 0; rank < world_size && !has_unknown_ranks_; ++rank) {
        if (!here.contains(rank)) {
            missing_.push_back(rank);
        }
    }
    before_ = missing_.empty() ? before_ : dumps();
    newest_old_ = files::file_time_type::clock::now() - kPauseOfAsking;
}

OtherNodes::Dumps OtherNodes::dumps() const {
    Dumps found;
    if (directory_.empty()) {
        return found;
    }
    const AsUser as_owner(owner_);
    std::error_code failed;
    for (files::recursive_directory_iterator item(directory_, failed), end; !failed && item != end;
         item.increment(failed)) {
        std::error_code ignored;
        if (format::rank_of_dump_name(item->path().filename().c_str()) >= 0) {
            found[item->path().string()] = item->last_write_time(ignored);
        }
    }
    return found;
}

void OtherNodes::look() {
    for (const auto& [path, written] : dumps()) {
        const auto known = before_.find(path);
        const int32_t whose = format::rank_of_dump_name(files::path(path).filename().c_str());
        const auto rank = std::lower_bound(missing_.begin(), missing_.end(), whose);
        const bool is_new = known == before_.end() || known->second != written || written > newest_old_;
        if (is_new && rank != missing_.end() && *rank == whose) {
            answers_[whose] = path;
            missing_.erase(rank);
        }
    }
}

}  // namespace titan::tools
