// What ranks of a verdict file do: "repeat 4 (step $; all_reduce world 64; sync)".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "scenario.h"

namespace titan::test {

using Members = std::vector<std::pair<std::string, std::vector<int>>>;  // communicators and their ranks

// "0-2,5", "all".
std::vector<int> ranks_in(std::string_view text, int ranks);
// The words of a text, at blanks.
std::vector<std::string> words_of(std::string_view text);
// Appends what the text says to the program of `rank`. Throws std::runtime_error on what it does not know.
void write_program(std::string_view text, int rank, int ranks, const Members& communicators, synth::Program& program);
// count=1 datatype=bfloat16 reduction=max root=2 peer=2 op=all_gather stream=1 never_finishes fails
// pending started retired after_ms=5 took_ms=5
void change_call(std::string_view word, synth::Action& call);

}  // namespace titan::test
