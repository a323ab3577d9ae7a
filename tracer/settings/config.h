// The settings of a session: read once from the environment by the rows of config.def.
#pragma once

#include <limits.h>

#include <cstddef>
#include <cstdint>

#include "formats/layout/call_sites_layout.h"
#include "formats/layout/enums.h"

namespace titan::tracer {

using RankList = char[256];
using LabelList = char[1024];

enum class CudaMode : uint8_t { kInterpose, kCupti, kOff };
struct StackSetting {
    bool dump;           // stacks of all threads, with each dump
    uint8_t call_sites;  // format::CallSiteKinds of each NCCL call
};
enum class NcclPluginMode : uint8_t { kAuto, kProgress, kOff };

struct GpuProgressSetting {
    format::GpuProgressMethod method;
    uint32_t sample;  // every n-th launch, at least 1
    bool by_budget;   // nobody chose a method: as much as the budget allows
};

constexpr uint32_t kNoGroup = UINT32_MAX;

struct Config {
    bool enabled;
    char dir[PATH_MAX];         // absolute
    char ring_dir[PATH_MAX];    // absolute
    char run_id[128];           // may be empty: the identity finds one
    LabelList labels;           // as given
    RankList ranks;             // validated text, empty: all
    uint64_t timeout_ns;        // 0 never
    uint64_t health_ns;         // between readings of the machine, 0 never
    uint64_t stack_samples_ns;  // between samples of stacks, 0 never
    int dump_signal;            // 0 off
    uint32_t dump_on;           // bits by dump_bit()
    uint32_t keep;              // dumps per rank, at least 1
    uint32_t group;             // may read dumps; kNoGroup: none
    uint32_t rings_mib;         // limit for rings of dead processes
    uint32_t rings_days;
    uint32_t journal_mib;  // of a node, 0: none is written
    uint64_t journal_ns;   // from write to write
    uint32_t collectives;  // ring slots, powers of two
    uint32_t cuda_calls;
    uint32_t markers;
    uint32_t stream_work;
    GpuProgressSetting gpu_progress;
    uint32_t budget;  // of the job's time, in millionths
    CudaMode cuda;
    NcclPluginMode nccl_plugin;
    StackSetting stacks;
    char spans[512];           // as given, empty: all
    uint32_t nvtx_per_second;  // 0 none
    uint32_t launch_sample;    // 0 none
    uint64_t unusable;         // bits of rows whose value was not taken
};

inline bool samples_stacks(const Config& config) { return config.stack_samples_ns != 0 && config.stacks.dump; }

constexpr uint32_t dump_bit(format::DumpReason reason) { return 1u << static_cast<unsigned>(reason); }

// For a value that cannot be used its default is taken. In a setuid process `enabled` is false and the environment is
// not looked at.
void load_config(Config& config);
// Says which values were not taken, and which variables that begin like ours are none: misspelt ones. Each once.
void report_settings(const Config& config);

// Is a name among those of a list such as "step,forward*,-aten::*"? hot.
bool is_listed(const char* list, const char* name, size_t length);

// Does this rank record? An unknown rank (-1) does: better a ring too many than the guilty one missing.
bool rank_selected(const Config& config, int rank);

}  // namespace titan::tracer
