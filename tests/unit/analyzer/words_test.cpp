// Names, numbers and ranks as people read them.
#include "host/words.h"

#include <doctest/doctest.h>

#include "function_name.h"

TEST_CASE("a list of any number of ranks is short for people, and whole for programs") {
    using namespace titan;
    std::vector<int> odd;
    std::vector<int> blocks;
    std::vector<int> squares;
    for (int i = 0; i < 256; ++i) {
        odd.push_back(2 * i + 1);
        blocks.push_back(4 * i - 2 * (i % 2));
        squares.push_back(i * i);
    }
    CHECK(ranks_text(odd) == "ranks 1,3,...,511");
    CHECK(rank_list(blocks) == "0,2,8,10,16,18,24,26 and 248 more");
    CHECK(rank_list(squares) == "0-1,4,9,16,25,36,49,64 and 247 more");
    CHECK(rank_ranges(odd).size() > 900);
}

TEST_CASE("ranks, durations, names") {
    using namespace titan;
    CHECK(rank_ranges({5, 0, 1, 2, 7, 6}) == "0-2,5-7");
    CHECK(ranks_text({3}) == "rank 3");
    CHECK(rank_list({}).empty());
    CHECK(rank_list({6, 4, 2, 0}) == "0,2,4,6");
    CHECK(rank_list({0, 2, 4, 6, 8, 9, 10, 11}) == "0,2,...,8,9-11");
    CHECK(rank_list({0, 1, 2, 3, 8, 16, 24, 32, 40}) == "0-3,8,16,...,40");
    CHECK(duration_text(4'100'000'000) == "4.1 s");
    CHECK(duration_text(350'000'000) == "350 ms");
    CHECK(duration_text(125'000'000'000) == "2 min 05 s");
    CHECK(grouped_digits(1234567) == "1,234,567");
    CHECK(counted(1, "rank") == "1 rank");
    CHECK(counted(0, "process") == "0 processes");
    CHECK(counted(2, "stretch") == "2 stretches");
    CHECK(many_counted(1234, "element") == "1,234 elements");
    CHECK(std::string_view(verb_form(1, "is", "are")) == "is");
    CHECK(std::string_view(verb_form(2, "is", "are")) == "are");
    CHECK(printable("a\033[31mb\xff") == "a?[31mb?");
    CHECK(printable("sch\xc3\xb6n") == "sch\xc3\xb6n");
}

TEST_CASE("what a terminal would act on is no part of a name, and of output only what is ours") {
    using titan::Keep;
    using titan::printable;
    // The first and last of each kind: controls, directions, what has no width, separators, tags.
    for (const char* code :
         {"\x01", "\x1f", "\x7f", "\u0080", "\u009f", "\u00ad", "\u061c", "\u200b", "\u200f", "\u2028", "\u202e",
          "\u2060", "\u2066", "\u2069", "\ufeff", "\ufff9", "\U000e0001", "\U000e007f"}) {
        CHECK(printable(std::string("a") + code + "b") == "a?b");
        CHECK(printable(std::string("a") + code + "b", Keep::kOwnLines) == "a?b");
    }
    for (const char* text : {"\u00a0", "\u00e9", "\u05d0", "\u0627", "\u2010", "\u4e2d", "\U0001f600"}) {
        CHECK(printable(text) == text);
    }
    CHECK(printable("a\n\tb\r\033[1;31mc\033[K") == "a??b??[1;31mc?[K");
    CHECK(printable("a\n\tb\r\033[1;31mc\033[K", Keep::kOwnLines) == "a\n\tb\r\033[1;31mc\033[K");
    CHECK(printable("\033[2J\033]0;title\007\033", Keep::kOwnLines) == "?[2J?]0;title??");
    CHECK(printable("\033[1", Keep::kOwnLines) == "?[1");
    CHECK(printable("cut \xe2\x80", Keep::kOwnLines) == "cut ??");
}

TEST_CASE("names of kernels, whole, cut, and hostile") {
    using titan::analyzer::full_kernel_name;
    using titan::analyzer::short_kernel_name;
    CHECK(short_kernel_name("my_kernel") == "my_kernel");
    CHECK(short_kernel_name("_Z4spinv") == "spin");
    CHECK(short_kernel_name(
              "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15FillFunctorIfEESt5arrayIPcLm1EEEEviT0_"
              "T1_") == "at::native::vectorized_elementwise_kernel");
    const std::string cut = "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15FillFunctorIfE";
    CHECK(short_kernel_name(cut) == "at::native::vectorized_elementwise_kernel");
    CHECK(full_kernel_name(cut) == "at::native::vectorized_elementwise_kernel...");
    CHECK(short_kernel_name("_ZN2at6native29vectorized_elem") == "at::native::vectorized_elem");
    CHECK(short_kernel_name("_ZN7cutlass6KernelI4GemmIfEE3runEv") == "cutlass::Kernel::run");
    CHECK(short_kernel_name("_ZN12_GLOBAL__N_14spinEv") == "(anonymous namespace)::spin");
    CHECK(short_kernel_name("_Z") == "_Z");
    CHECK_FALSE(short_kernel_name("_ZN99999999999999999999x").empty());
    std::string bomb = "_Z1fI1aIiE";
    for (int i = 0; i < 200; ++i) {
        bomb += "1aIS_S_S_S_E";
    }
    CHECK(short_kernel_name(bomb) == "f");
}

TEST_CASE("frames without parameters and template arguments") {
    using titan::analyzer::short_frame;
    CHECK(short_frame("simgpu::Trainer::wait_for(CUstream_st*) at trainer.cpp:315 (titan-sim, inlined)") ==
          "simgpu::Trainer::wait_for at trainer.cpp:315 (titan-sim, inlined)");
    CHECK(short_frame("void at::f<std::array<int, 2ul>, (x)1>(int (*)(char)) const (libtorch.so)") ==
          "at::f (libtorch.so)");
    CHECK(short_frame("auto simgpu::traced<int>(int) [clone .constprop.0] at trace.cpp:3 (titan-sim)") ==
          "simgpu::traced at trace.cpp:3 (titan-sim)");
    CHECK(short_frame("cudaError_enum titan::interpose::thunk_cuStreamSynchronize<(E)3>(CUstream_st*) (lib.so)") ==
          "titan::interpose::thunk_cuStreamSynchronize (lib.so)");
    CHECK(short_frame("f [clone .cold] (lib)") == "f (lib)");
    CHECK(short_frame("std::vector<int>& (anonymous namespace)::all<int>(int)") == "(anonymous namespace)::all");
    CHECK(short_frame("a::operator bool() const") == "a::operator bool");
    CHECK(short_frame("void* operator new(unsigned long)") == "operator new");
    CHECK(short_frame("a::name[abi:cxx11]() const&") == "a::name");
    CHECK(short_frame("wait for (something) [clone .cut") == "wait for (something) [clone .cut");
    CHECK(short_frame("a::(anonymous namespace)::b() at c.cpp:1") == "a::(anonymous namespace)::b at c.cpp:1");
    CHECK(short_frame("a::operator()(int) const (lib)") == "a::operator() (lib)");
    CHECK(short_frame("a::{lambda(int)#1}::operator()(int)") == "a::{lambda#1}::operator()");
    CHECK(short_frame("operator<<(a, b)") == "operator<<(a, b)");
    CHECK(short_frame("<module> at train.py:3") == "<module> at train.py:3");
    CHECK(short_frame("f.<locals>.g at train.py:3") == "f.<locals>.g at train.py:3");
    CHECK(short_frame("main (titan-sim)") == "main (titan-sim)");
    CHECK(short_frame("cut::f<int, std::vector<") == "cut::f<int, std::vector<");
}
