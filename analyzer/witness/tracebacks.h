// Python's tracebacks in a log, of the ranks that wrote them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace titan::analyzer {

// As a rank wrote it: "[rank1]: Traceback ..." (PyTorch), "[default1]:Traceback ..." (torchrun --tee), or bare.
struct Traceback {
    int32_t rank = -1;
    int32_t local_rank = -1;
    std::string message;  // "RuntimeError: boom"
    std::string place;    // "train.py:212 in step": the innermost one in the program itself
};

// At most some hundred; of exceptions that follow from each other, the last one. Those of torchrun itself are left out.
std::vector<Traceback> tracebacks_in(std::string_view text);

// The place in one traceback.
std::string place_in_traceback(std::string_view traceback);

}  // namespace titan::analyzer
