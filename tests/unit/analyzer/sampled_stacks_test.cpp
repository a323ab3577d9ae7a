// What sampled stacks tell of a late rank, and what they do not.
#include "sampled_stacks.h"

#include <doctest/doctest.h>

#include <initializer_list>
#include <string>

#include "digests.h"
#include "made_texts.h"
#include "stacks_report.h"

using namespace titan::analyzer;

namespace {

struct Frame {
    const char* text;
    const char* library = "";
};

// Ranks whose main thread is sampled; frames are told innermost first.
class Job {
  public:
    explicit Job(int ranks) {
        for (int rank = 0; rank < ranks; ++rank) {
            Process& process = run.processes.emplace_back();
            process.rank = rank;
            process.pid = 100 + rank;
            process.texts = {""};
        }
    }
    void see(int rank, size_t times, std::initializer_list<Frame> frames, int64_t step = 1, int32_t thread = 0,
             const char* name = "python") {
        Process& process = run.processes[static_cast<size_t>(rank)];
        MadeTexts texts(process.texts);
        SampledStack stack;
        stack.thread = thread == 0 ? process.pid : thread;
        stack.name = texts.add(name);
        for (const Frame& frame : frames) {
            stack.frames.push_back(texts.add(frame.text));
            stack.libraries.push_back(texts.add(frame.library));
        }
        process.stack_samples.stacks.push_back(stack);
        const auto number = static_cast<uint32_t>(process.stack_samples.stacks.size() - 1);
        process.stack_samples.samples.insert(process.stack_samples.samples.end(), times, {number, step, 0});
    }
    std::string said(std::vector<int> ranks, std::optional<int64_t> from_step = std::nullopt) const {
        const auto excess = sampled_excess(run, ranks, from_step);
        return excess ? excess_text(*excess) : "";
    }

    Run run;
};

const Frame kStep{"step at train.py:40"};
const Frame kMain{"<module> at train.py:90"};

// Rank 3 loads for most of its time, the others wait for it.
Job loading() {
    Job job(8);
    for (int rank = 0; rank < 8; ++rank) {
        const bool is_late = rank == 3;
        job.see(rank, is_late ? 22 : 58,
                {{"cuStreamSynchronize (libcuda.so.1)", "libcuda.so.1"}, {"train at train.py:41"}, kStep, kMain});
        job.see(rank, is_late ? 30 : 0, {{"read (libc.so.6)", "libc.so.6"}, {"load at data.py:88"}, kStep, kMain});
        job.see(rank, is_late ? 8 : 2, {{"load at data.py:88"}, kStep, kMain});
    }
    return job;
}

}  // namespace

TEST_CASE("the function of the program that a late rank is in more often than its peers") {
    const Job job = loading();
    CHECK(job.said({3}) == "in 38 of 60 samples rank 3 is in load at data.py:88; its peers in 14 of 420");
    CHECK(job.said({2}).empty());
    CHECK(job.said({9}).empty());
}

TEST_CASE("lines of one function count together") {
    Job job(4);
    for (int rank = 0; rank < 4; ++rank) {
        job.see(rank, 30, {{"wait at a.cpp:7 (program)"}, kMain});
    }
    job.see(1, 20, {{"run<int>(char) at a.cpp:12 (program)"}, kMain});
    job.see(1, 10, {{"run<int>(char) at a.cpp:14 (program)"}, kMain});
    CHECK(job.said({1}) ==
          "in 30 of 60 samples rank 1 is in run at a.cpp:12 (program) (and 1 more line); its peers in none of 90");
}

TEST_CASE("of functions that stand out alike the innermost of the program is told") {
    Job job(4);
    for (int rank = 0; rank < 4; ++rank) {
        job.see(rank, 20, {kStep, kMain});
    }
    job.see(0, 40, {{"inflate (libz.so.1)", "libz.so.1"}, {"unpack at io.py:3"}, {"fetch at data.py:9"}, kStep, kMain});
    job.see(0, 2, {{"fetch at data.py:10"}, kStep, kMain});
    CHECK(job.said({0}) == "in 40 of 62 samples rank 0 is in unpack at io.py:3; its peers in none of 60");
    Job libraries(4);
    for (int rank = 0; rank < 4; ++rank) {
        libraries.see(rank, 20, {{"wait (libnccl.so.2)", "libnccl.so.2"}});
    }
    libraries.see(0, 40, {{"spin (libgpu.so)", "libgpu.so"}, {"drive (libgpu.so)", "libgpu.so"}});
    CHECK(libraries.said({0}).find("is in spin (libgpu.so); its peers in none of 60") != std::string::npos);
}

TEST_CASE("what may be chance is not told") {
    Job few(2);
    few.see(0, 9, {{"load at data.py:88"}});
    few.see(1, 60, {kStep});
    CHECK(few.said({0}).empty());
    Job alike(2);
    alike.see(0, 24, {{"load at data.py:88"}});
    alike.see(0, 36, {kStep});
    alike.see(1, 16, {{"load at data.py:88"}});
    alike.see(1, 44, {kStep});
    CHECK(alike.said({0}).empty());
    Job alone(1);
    alone.see(0, 60, {kStep});
    CHECK(alone.said({0}).empty());
    CHECK(Job(3).said({0}).empty());
    Job unseen(2);  // threads that could not be asked
    unseen.see(0, 60, {});
    unseen.see(1, 60, {kStep});
    CHECK(unseen.said({0}).empty());
}

TEST_CASE("samples of earlier steps do not count") {
    Job job(3);
    for (int rank = 0; rank < 3; ++rank) {
        job.see(rank, 60, {{"compile at jit.py:1"}}, -1);
        job.see(rank, 60, {kStep}, 20);
    }
    job.see(0, 60, {{"load at data.py:88"}}, 20);
    job.see(1, 60, {{"load at data.py:88"}}, 3);
    CHECK(job.said({0}, 10) == "in 60 of 120 samples rank 0 is in load at data.py:88; its peers in none of 120");
}

TEST_CASE("several ranks, and threads beside the main one") {
    Job job(4);
    for (int rank = 0; rank < 4; ++rank) {
        job.see(rank, 60, {kStep});
        job.see(rank, rank < 2 ? 10 : 60, {{"wait (libtorch.so)", "torch"}}, 1, 7, "pt_autograd_0");
    }
    for (const int rank : {0, 1}) {
        job.see(rank, 50, {{"hook at model.py:5"}}, 1, 7, rank == 0 ? "pt_autograd_0" : "pt_autograd_1");
    }
    CHECK(job.said({0, 1}) ==
          "in 100 of 120 samples thread pt_autograd of ranks 0-1 is in hook at model.py:5; their peers in none "
          "of 120");
}

TEST_CASE("the folded format of flame graphs") {
    Job job(3);
    job.see(0, 6, {{"load at data.py:88"}, kMain});
    job.see(0, 4, {{"operator;() at a.cpp:1 (program)"}, kMain});
    job.see(1, 30, {{"load at data.py:88"}, kMain});
    job.see(2, 10, {}, 1, 9, "worker-2");
    const FoldedStacks all = fold_samples(job.run, {});
    CHECK(all.text ==
          "main;<module> at train.py:90;load at data.py:88 36\n"
          "main;<module> at train.py:90;operator,() at a.cpp:1 (program) 4\n"
          "worker;(not seen) 10\n");
    CHECK(all.samples == 50);
    CHECK(all.ranks == 3);
    CHECK(fold_samples(job.run, {1}).text == "main;<module> at train.py:90;load at data.py:88 30\n");
    const FoldedStacks beside = fold_difference(job.run, 0);
    CHECK(beside.text ==
          "main;<module> at train.py:90;load at data.py:88 30 24\n"
          "main;<module> at train.py:90;operator,() at a.cpp:1 (program) 0 16\n"
          "worker;(not seen) 10 0\n");
    CHECK(beside.peers == 2);
    CHECK(fold_difference(Job(2).run, 0).text.empty());
}

TEST_CASE("samples in a digest") {
    const Job job = loading();
    const auto read = unpack_process(pack_process(job.run.processes[3]));
    REQUIRE(read);
    Run run;
    run.processes = {*read};
    CHECK(fold_samples(run, {}).text == fold_samples(job.run, {3}).text);
    CHECK(read->stack_samples.samples.back().step == 1);
    Process untrue = job.run.processes[3];
    untrue.stack_samples.samples.push_back({77, 1, 0});
    untrue.stack_samples.stacks.front().frames.push_back(99'999);
    run.processes = {untrue};
    CHECK(fold_samples(run, {}).samples == 60);
}
