#include <doctest/doctest.h>
#include <signal.h>
#include <stdlib.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "config.h"
#include "scratch.h"

using namespace titan::tracer;
using titan::format::DumpReason;
using titan::test::Scratch;

namespace {

void forget_environment() {
#define TITAN_CONFIG_ROW(variable, default_text, parser, field, help) unsetenv(#variable);
#include "config.def"
#undef TITAN_CONFIG_ROW
}

// Loads with these variables and no other of ours.
std::unique_ptr<Config> load(const titan::test::Environment& environment) {
    titan::test::apply(environment);
    auto config = std::make_unique<Config>();
    load_config(*config);
    forget_environment();
    return config;
}

bool selects(const char* ranks, int rank) { return rank_selected(*load({{"TITANTRACE_RANKS", ranks}}), rank); }

}  // namespace

TEST_CASE("defaults") {
    auto config = load({});
    CHECK(config->enabled);
    CHECK(std::string(config->dir).ends_with("/dumps"));
    CHECK(config->dir[0] == '/');
    CHECK(std::string(config->ring_dir) == "/dev/shm");
    CHECK(config->timeout_ns == 300'000'000'000);
    CHECK(config->dump_signal == SIGUSR1);
    CHECK(config->dump_on ==
          (dump_bit(DumpReason::kSignal) | dump_bit(DumpReason::kTimeout) | dump_bit(DumpReason::kStandstill) |
           dump_bit(DumpReason::kAbort) | dump_bit(DumpReason::kCrash) | dump_bit(DumpReason::kEnd)));
    CHECK(config->keep == 3);
    CHECK(config->collectives == 16384);
    CHECK(config->cuda_calls == 4096);
    CHECK(config->markers == 8192);
    CHECK(config->gpu_progress.method == titan::format::GpuProgressMethod::kWrites);
    CHECK(config->gpu_progress.by_budget);
    CHECK(config->budget == 3000);
    CHECK(rank_selected(*config, 12));
}

TEST_CASE("good values") {
    auto config = load({{"TITANTRACE_TIMEOUT_S", "0.25"},
                        {"TITANTRACE_SIGNAL", "sigusr2"},
                        {"TITANTRACE_DUMP_ON", "exit,crash"},
                        {"TITANTRACE_COLLECTIVES", "1000"},
                        {"TITANTRACE_GPU_PROGRESS", "off"},
                        {"TITANTRACE_DIR", "/a/b"},
                        {"TITANTRACE", "0"}});
    CHECK(config->timeout_ns == 250'000'000);
    CHECK(config->dump_signal == SIGUSR2);
    CHECK(config->dump_on == (dump_bit(DumpReason::kExit) | dump_bit(DumpReason::kCrash)));
    CHECK(config->collectives == 1024);
    CHECK(config->gpu_progress.method == titan::format::GpuProgressMethod::kOff);
    CHECK(std::string(config->dir) == "/a/b");
    CHECK_FALSE(config->enabled);
    CHECK(std::string(load({{"TITANTRACE_LABELS", "a=b,c=d=e,f="}})->labels) == "a=b,c=d=e,f=");
    CHECK(load({{"TITANTRACE_HEALTH_S", "0"}})->health_ns == 0);
    CHECK_FALSE(samples_stacks(*load({})));
    CHECK(samples_stacks(*load({{"TITANTRACE_STACK_SAMPLES_S", "0.5"}})));
    CHECK_FALSE(samples_stacks(*load({{"TITANTRACE_STACK_SAMPLES_S", "1"}, {"TITANTRACE_STACKS", "off"}})));
    CHECK(load({{"TITANTRACE_SIGNAL", "off"}})->dump_signal == 0);
    CHECK(load({{"TITANTRACE_SIGNAL", "RTMIN+3"}})->dump_signal == SIGRTMIN + 3);
    CHECK(load({{"TITANTRACE_DUMP_ON", "none"}})->dump_on == 0);
    CHECK(load({{"TITANTRACE_TIMEOUT_S", "0"}})->timeout_ns == 0);
    for (const auto& [percent, millionths] : std::vector<std::pair<std::string, uint32_t>>{
             {"1", 10'000}, {"0.05%", 500}, {"100", 1'000'000}, {"0", 0}, {"off", 0}}) {
        CHECK(load({{"TITANTRACE_BUDGET", percent}})->budget == millionths);
    }
    CHECK_FALSE(load({{"TITANTRACE_GPU_PROGRESS", "writes"}})->gpu_progress.by_budget);
    CHECK(load({{"TITANTRACE_GPU_PROGRESS", "timing/4"}})->gpu_progress.sample == 4);
}

TEST_CASE("what can be switched off takes every word for it, in any case") {
    CHECK(load({{"TITANTRACE_SIGNAL", "No"}})->dump_signal == 0);  // 0 would be a number, and of no signal
    for (const char* off : {"0", "off", "NO", "False"}) {
        auto config = load({{"TITANTRACE", off},
                            {"TITANTRACE_GPU_PROGRESS", off},
                            {"TITANTRACE_CUDA", off},
                            {"TITANTRACE_NCCL_PLUGIN", off},
                            {"TITANTRACE_STACKS", off},
                            {"TITANTRACE_NVTX", off},
                            {"TITANTRACE_DUMP_ON", off}});
        CHECK_FALSE(config->enabled);
        CHECK(config->gpu_progress.method == titan::format::GpuProgressMethod::kOff);
        CHECK(config->cuda == CudaMode::kOff);
        CHECK(config->nccl_plugin == NcclPluginMode::kOff);
        CHECK_FALSE(config->stacks.dump);
        CHECK(config->nvtx_per_second == 0);
        CHECK(config->dump_on == 0);
    }
}

TEST_CASE("bad values leave the default") {
    for (const char* bad : {"x", "-1", "1.", "1.2.3", ".", "99999999999999999999", "1e3"}) {
        CHECK(load({{"TITANTRACE_TIMEOUT_S", bad}})->timeout_ns == 300'000'000'000);
    }
    for (const char* bad : {"KILL", "SEGV", "9", "0", "65", "33", "USR", "RTMIN+99"}) {
        CHECK(load({{"TITANTRACE_SIGNAL", bad}})->dump_signal == SIGUSR1);
    }
    for (const char* bad : {"signal,", "signal,peer", "Signal", ","}) {
        CHECK(load({{"TITANTRACE_DUMP_ON", bad}})->dump_on != dump_bit(DumpReason::kSignal));
    }
    for (const char* bad : {"x", "-1", "101", "0.3%%", "%", "1e-3", "0.000000000000000000000000000000003"}) {
        CHECK(load({{"TITANTRACE_BUDGET", bad}})->budget == 3000);
    }
    CHECK(load({{"TITANTRACE_COLLECTIVES", "0"}})->collectives == 16384);
    CHECK(load({{"TITANTRACE_COLLECTIVES", "99999999"}})->collectives == 16384);
    CHECK(load({{"TITANTRACE_KEEP", "0"}})->keep == 3);
    for (const std::string& bad :
         std::vector<std::string>{"a", "a=b,c", "=b", ",", "a=b,,c=d", std::string(2000, 'x') + "=1"}) {
        CHECK(load({{"TITANTRACE_LABELS", bad}})->labels[0] == '\0');
    }
    CHECK(load({{"TITANTRACE", "maybe"}})->enabled);
    CHECK(load({})->group == kNoGroup);
    CHECK(load({{"TITANTRACE_GROUP", "root"}})->group == 0);
    CHECK(load({{"TITANTRACE_GROUP", "4711"}})->group == 4711);
    CHECK(load({{"TITANTRACE_GROUP", "no such group"}})->group == kNoGroup);
    CHECK(load({{"TITANTRACE_DIR", std::string(5000, 'x')}})->dir[5] != 'x');
}

TEST_CASE("a bad value is reported once, escaped") {
    Scratch scratch;
    titan::test::run_child(
        {{"TITANTRACE_KEEP", "\x1b[31mred"}},
        [] {
            auto config = std::make_unique<Config>();
            load_config(*config);
            report_settings(*config);
            report_settings(*config);
            return 0;
        },
        scratch.path("errors"));
    CHECK(titan::test::read_file(scratch.path("errors")) ==
          "titantrace: TITANTRACE_KEEP=\"\\x1b[31mred\" cannot be used, taking 3\n");
}

TEST_CASE("a misspelt setting is told, with the one that may be meant") {
    Scratch scratch;
    titan::test::run_child(
        {{"TITANTRACE_TIMEOUTS", "5"}, {"TITANTRACE_\x1bX", "1"}, {"TITANTRACED_BY", "us"}, {"TITANTRACE_KEEP", "2"}},
        [] {
            auto config = std::make_unique<Config>();
            load_config(*config);
            report_settings(*config);
            return 0;
        },
        scratch.path("errors"));
    const std::string errors = titan::test::read_file(scratch.path("errors"));
    CHECK(titan::test::has(errors,
                           "TITANTRACE_TIMEOUTS is no setting of titantrace; did you mean TITANTRACE_TIMEOUT_S\n"));
    CHECK(titan::test::has(errors, "TITANTRACE_\\x1bX is no setting of titantrace\n"));
    CHECK_FALSE(titan::test::has(errors, "TITANTRACED_BY"));
    CHECK_FALSE(titan::test::has(errors, "KEEP"));
}

TEST_CASE("which ranks record") {
    CHECK(selects("0-7,64", 0));
    CHECK(selects("0-7,64", 7));
    CHECK_FALSE(selects("0-7,64", 8));
    CHECK(selects("0-7,64", 64));
    CHECK(selects("%8", 0));
    CHECK(selects("%8", 16));
    CHECK_FALSE(selects("%8", 7));
    CHECK(selects("3,%100", 3));
    CHECK(selects("5", -1));
    for (const char* bad : {"7-0", "a", "1,,2", "%0", "1-", "-1", "%", "1 2", "0-99999999999"}) {
        CHECK(selects(bad, 12345));  // the default: all
    }
}

TEST_CASE("every variable has a sentence of help") {
#define TITAN_CONFIG_ROW(variable, default_text, parser, field, help) CHECK(std::string(help).ends_with("."));
#include "config.def"
#undef TITAN_CONFIG_ROW
}
