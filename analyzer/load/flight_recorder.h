// PyTorch's Flight Recorder dumps as processes of a run. What they say is kept in their own numbers: a sequence number
// is PyTorch's collective_seq_id (from 1), a communicator is a process group, a rank of it the rank in the group. Of
// point-to-point calls the n-th between two ranks is counted here (from 0), because p2p_seq_id counts each rank's own
// calls.
//
// What they do not say stays unknown: what the host does, streams, reductions, roots, calls inside CUDA graphs, and
// when the file was written (its modification time stands in). So a rank that has an unfinished call is taken to
// be held in it, and claims about what was not recorded are made with less confidence.
#pragma once

#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "formats/fr/fr_dump.h"
#include "formats/fr/tree.h"
#include "formats/result.h"
#include "run.h"

namespace titan::analyzer {

// "nccl:send 1->2": who, what, and of what kind it is.
struct CallName {
    std::string_view backend;
    std::string_view op;
    OpKind kind = OpKind::kOtherCollective;
    int source = -1;  // ranks in the group
    int target = -1;
    bool closes_group = false;      // the end of a coalesced group, which stands for all its calls
    bool sizes_may_differ = false;  // members rightly pass different sizes
};
CallName parse_call_name(std::string_view profiling_name);
// Dumps of torchcomms get the numbers that PyTorch would give: by group, from 1. An error where nothing tells them.
std::optional<format::Error> number_by_group(format::fr::Dump& dump);
Datatype datatype_of(std::string_view torch_name);
// The other way round, in PyTorch's C++ words ("Float"); "Undefined" where it has none.
std::string_view torch_name_of(Datatype datatype);

// "train.py:212 in step": the innermost frame that is not PyTorch's own. Empty where there are no frames.
std::string call_site(const format::fr::Dump& dump, const format::fr::Entry& entry);
// That and up to two frames of the program around it: "train.py:9 in call, from train.py:157 in step".
std::string call_way(const format::fr::Dump& dump, const format::fr::Entry& entry);
// "[[16]] -> [[2, 16]]"
std::string shapes_text(const format::fr::Dump& dump, const format::fr::Entry& entry);
std::string group_text(std::string_view name, std::string_view description);

// Who is in which group, as any of the files tells. Thread-safe.
class GroupRanks {
  public:
    void add(uint64_t id, const std::vector<int32_t>& ranks);
    std::unordered_map<uint64_t, std::vector<int32_t>> take();

  private:
    std::mutex mutex_;
    std::unordered_map<uint64_t, std::vector<int32_t>> ranks_;
};

// Memory that serves file after file.
struct FlightRecorderScratch {
    std::vector<std::byte> bytes;
    format::fr::Tree tree;
};

// By its first few kB.
bool looks_like_flight_recorder(std::span<const std::byte> first_bytes);
// By content: a pickle, or JSON with the keys of such a dump.
bool is_flight_recorder(const std::string& path);
// The rank that a file's name ends in, -1 where it has none: nccl_trace_rank_3, nccl_trace_rank_3.json.
int rank_in_name(std::string_view file_name);
// nccl_trace_rank_gpu-node02_5: the host before the rank; empty where it has none.
std::string_view host_in_name(std::string_view file_name);

// Once more, the file or the member of an archive that a process was loaded from.
format::Result<format::fr::Dump> read_flight_recorder(const Source& source, FlightRecorderScratch& scratch);
format::Result<Process> load_flight_recorder(const std::string& path, FlightRecorderScratch& scratch,
                                             GroupRanks& groups);
// What the scratch holds: of the file that the source names, or of the member of an archive.
format::Result<Process> load_flight_recorder_bytes(Source source, FlightRecorderScratch& scratch, GroupRanks& groups);
// `written_ns`: the file's time.
Process process_of_dump(const format::fr::Dump& dump, int rank, int64_t written_ns, GroupRanks& groups);

// When the dump was made: from its entries, else the file's time, else what PyTorch's timeout leaves of it.
void set_moment(const format::fr::Dump& dump, Process& process);
// What only the files together tell: that their times are those of a copy.
void compare_moments(Run& run);
// Leaves out files of an earlier run, which a rank that died without a dump left in the way.
void leave_out_stale(std::vector<Process>& processes, std::vector<Warning>& warnings);

// What takes all processes: members of groups that they never used, groups whose ranks no file tells, and the numbers
// of point-to-point calls whose beginning is lost. Before link().
void complete_flight_recorder(Run& run, GroupRanks& groups);
void warn_of_what_it_hides(Run& run);

}  // namespace titan::analyzer
