// The place of a rank in the job's grid: which communicator is tensor, data, pipeline, ... parallel, and the rank's
// coordinate in each. Taken from the program's labels, else from communicator names, else inferred from the
// communicators' members and operations; if these leave a doubt, nothing is said. Pure and immutable: any thread may
// read.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/words.h"
#include "run.h"
#include "sentence.h"

namespace titan::analyzer {

// X(identifier, "name", "what a place in it is called", gives a place)
// The order is the one that a person names them in. Roles without a place span several axes, or none.
#define TITAN_ROLES(X)                                    \
    X(kPipeline, "pp", "stage", true)                     \
    X(kData, "dp", "dp rank", true)                       \
    X(kDataReplicate, "dp_replicate", "dp replica", true) \
    X(kDataShard, "dp_shard", "dp shard", true)           \
    X(kContext, "cp", "cp rank", true)                    \
    X(kSequence, "sp", "sp rank", true)                   \
    X(kExpert, "ep", "ep rank", true)                     \
    X(kExpertTensor, "etp", "expert tp rank", true)       \
    X(kExpertData, "edp", "expert dp rank", true)         \
    X(kTensor, "tp", "tp rank", true)                     \
    X(kWorld, "world", "rank", false)                     \
    X(kEmbedding, "embedding", "embedding rank", false)   \
    X(kSeveral, "several axes", "rank", false)            \
    X(kNoRole, "unknown", "rank", false)

enum class Role : uint8_t {
#define TITAN_ROLE_ID(id, ...) id,
    TITAN_ROLES(TITAN_ROLE_ID)
#undef TITAN_ROLE_ID
};

struct RoleRow {
    Role role;
    std::string_view name;
    std::string_view place;
    bool has_place;
};

inline constexpr auto kRoles = std::to_array<RoleRow>({
#define TITAN_ROLE_ROW(id, name, place, has_place) {Role::id, name, place, has_place},
    TITAN_ROLES(TITAN_ROLE_ROW)
#undef TITAN_ROLE_ROW
});
inline constexpr size_t kRoleCount = kRoles.size();

constexpr const RoleRow& row_of(Role role) { return kRoles[static_cast<size_t>(role)]; }
constexpr std::string_view name_of(Role role) { return row_of(role).name; }

enum class RoleSource : uint8_t { kNone, kName, kSameRanks, kInferred };

struct CommunicatorRole {
    Role role = Role::kNoRole;
    RoleSource source = RoleSource::kNone;
    std::string why;  // text for people: "by its name", "inferred: ..."
};

struct RankPlace {
    std::array<int32_t, kRoleCount> at;  // index: role; -1 unknown
    std::string host;
    RankPlace() { at.fill(-1); }
    int32_t in(Role role) const { return at[static_cast<size_t>(role)]; }
};

// One axis of the grid.
struct Dimension {
    Role role{};
    int32_t size = 0;       // size of its largest group
    bool regular = false;   // all groups are of that size
    bool complete = false;  // the place of every rank of the job is known
    bool inferred = false;
    bool by_label = false;  // no communicator, only labels
    std::vector<uint32_t> communicators;
    std::string why;
};

class Layout {
  public:
    // Index: Run::communicators.
    const std::vector<CommunicatorRole>& roles() const { return roles_; }
    // The dimensions that have a place, in the order of kRoles.
    const std::vector<Dimension>& dimensions() const { return dimensions_; }
    const std::map<int, RankPlace>& places() const { return places_; }
    const RankPlace* place_of(int rank) const;

    // "stage 1, tp rank 1, node gpu-17"; empty where nothing is known that tells the rank from others.
    std::string place_text(int rank) const;
    // "rank 5 (stage 1, tp rank 1, node gpu-17)", "all of stage 3 (ranks 24-31)", "tp rank 1 of every group (32
    // ranks)", "ranks 9,11 (stage 1, tp rank 1)"; just the ranks where the layout tells nothing.
    std::string ranks_text(const std::vector<int>& ranks) const;
    // The part that all ranks of the set have in common and nobody else: "all of stage 3", empty where there is none.
    std::string fold(const std::vector<int>& sorted_ranks) const;

  private:
    friend Layout layout_of(const Run& run);
    std::string common_text(const std::vector<int>& sorted_ranks) const;
    std::vector<CommunicatorRole> roles_;
    std::vector<Dimension> dimensions_;
    std::map<int, RankPlace> places_;
    size_t hosts_ = 0;
    bool all_hosts_known_ = false;
};

Layout layout_of(const Run& run);

// The stage of the pipeline that the rank is in; -1: unknown.
int32_t stage_of(const Run& run, int rank);

// Understands the names that PyTorch's device meshes, Megatron, torchtitan, DeepSpeed, vLLM and SGLang give their
// groups: "tp:0", "mesh_dp_shard", "TENSOR_MODEL_PARALLEL_GROUP". kNoRole if a word of the name is unknown.
Role role_of_name(std::string_view name);

using titan::ranks_text;
// The ranks, folded where a long list is a place of the layout.
std::string ranks_text(const Run& run, const std::vector<int>& ranks);

Sentence ranks_fact(const Run& run, const std::vector<int>& ranks);
// Global ranks of its members, as far as they are known.
std::vector<int> member_ranks(const Run& run, const Communicator& communicator);
// "tp (ranks 4-5)" where several communicators are called tp, or where it has no name.
std::string distinct_text(const Run& run, uint32_t communicator);
// add_places adds the ranks' places in the job's grid where the sentence first names them; add_members adds the members
// of the communicator if its name does not tell.
void add_places(const Run& run, const std::vector<int>& ranks, Sentence& sentence);
void add_members(const Run& run, uint32_t communicator, Sentence& sentence);

// --- The hosts of ranks that left no record.

// "node-39": launchers fill one host after the other with equally many ranks. Empty where the ranks that are known lie
// otherwise.
std::string likely_host(const Run& run, int rank);

// "rank 317 probably ran on node-39, as ranks 312-316,318-319 did"; empty where it is not known.
std::string likely_host_text(const Run& run, int rank);

// --- Communicators as lists of global ranks, and what each of them is for.

struct Group {
    std::vector<int> ranks;  // index: communicator rank; -1 unknown; empty if the size is unknown or the identity
                             // guessed
    bool complete = false;   // all known
    int stride = 0;          // distance of neighbours, if it is always the same
};

// Index: that of Run::communicators.
std::vector<Group> groups_of(const Run& run);

std::vector<CommunicatorRole> roles_of(const Run& run, const std::vector<Group>& groups);

}  // namespace titan::analyzer
