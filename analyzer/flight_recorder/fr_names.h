// The words of a Flight Recorder dump: names of operations and datatypes, frames, shapes.
#pragma once

#include <string>
#include <string_view>

#include "formats/fr/fr_dump.h"
#include "run.h"

namespace titan::analyzer {

// "nccl:send 1->2": the backend, the operation and its kind.
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

Datatype datatype_of(std::string_view torch_name);

// "train.py:212 in step": the innermost frame that is not PyTorch's own. Empty where there are no frames.
std::string call_site(const format::fr::Dump& dump, const format::fr::Entry& entry);
// The same with up to two callers in the program: "train.py:9 in call, from train.py:157 in step".
std::string call_way(const format::fr::Dump& dump, const format::fr::Entry& entry);
// "[[16]] -> [[2, 16]]"
std::string shapes_text(const format::fr::Dump& dump, const format::fr::Entry& entry);
std::string group_text(std::string_view name, std::string_view description);

}  // namespace titan::analyzer
