#include "options.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "check.h"
#include "markers.h"

namespace simgpu {

namespace {

constexpr char kHelp[] =
    R"(titan-sim: a training job on simulated GPUs (test double: no GPU, driver or NVIDIA library is used)

It starts one process per rank. Each runs steps of forward, backward, optimizer and checkpoint with tensor (tp), data
(dp) and pipeline (pp) parallel communicators, and checks the numbers that come out of every collective.

usage: titan-sim [options]

  Layout (ranks = dp x tp x pp; tp neighbours are adjacent ranks, then dp, then pp)
    --ranks N              ranks in all                                  (default dp x tp x pp, or 4)
    --dp A  --tp B  --pp C sizes; what is not given is 1, but dp fills up to --ranks
    --hosts H              play H hosts: SIMGPU_HOST_INDEX is set, LOCAL_RANK counts per host, and %h in
                           TITANTRACE_RING_DIR becomes the host's number      (default 1)
    --threads              all ranks are threads of one process (ncclCommInitAll)
    --use-split            make tp, dp and pp with ncclCommSplit instead of unique ids of their own

  Work
    --steps K              (default 10)
    --bytes B              of one operation per rank; k and M as suffix       (default 16k)
    --step-ms T            work on the compute stream per step                (default 5)
    --work-ms T            the host's own work per step: keeps a core busy    (default 0)
    --kernels N            small kernels per step                             (default 0)
    --graphs               the first step runs eagerly; then one step is captured into a CUDA graph, over all
                           streams, and replayed in every step
    --poll                 ask whether a stream is done (cudaStreamQuery) instead of blocking until it is
    --unmarked             steps are not marked
    --nvtx                 NVTX ranges and marks instead of titantrace's markers
    --checkpoint-every M   a broadcast over the world as barrier, 0 = never   (default 5)
    --gradients MODE       sharded (reduce-scatter, all-gather) or allreduce  (default sharded)

  When things go wrong
    --hang-timeout-s S     a rank whose step takes longer aborts its communicators and ends with 5;
                           0 = never (default 0)
    --timeout-s S          the launcher kills everything after this time, status 124    (default 300)
    --fail-fast            when one rank fails, end the others; --keep-going is the default
    --pid-file FILE        lines "rank pid", so that tests can signal ranks; written when all are started

  Faults come from SIMGPU_FAULTS or the file in SIMGPU_FAULT_FILE, for example
    SIMGPU_FAULTS="skip rank=3 comm=dp step=5" titan-sim --ranks 8 --tp 2
    SIMGPU_FAULTS="kill rank=1 step=3; sleep rank=2 step=2 ms=500" titan-sim
  tests/simgpu/README.md has them all.

  Ranks get RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT and, unless set, TITANTRACE_RUN_ID.
  The launcher forwards SIGINT, SIGTERM, SIGUSR1 and SIGUSR2 to the ranks and says how each of them ended.

exit status: 0 all well, 1 a CUDA or NCCL call failed, 2 wrong arguments or fault script, 3 wrong data, 4 asynchronous
  NCCL error, 5 hang timeout, 124 launcher's timeout, 128+N a rank was killed by signal N (the first bad rank decides).
)";

[[noreturn]] void wrong(const char* format, const char* what) {
    std::fprintf(stderr, "titan-sim: ");
    std::fprintf(stderr, format, what);
    std::fprintf(stderr, " (see titan-sim --help)\n");
    std::exit(kExitUsage);
}

double number(const char* option, const char* text) {
    char* end = nullptr;
    errno = 0;
    double value = std::strtod(text, &end);
    if (*end == 'k' || *end == 'K') {
        value *= 1 << 10;
        ++end;
    } else if (*end == 'M') {
        value *= 1 << 20;
        ++end;
    }
    if (errno || end == text || *end || value < 0 || value > 1e12) {
        wrong("%s needs a number", option);
    }
    return value;
}

}  // namespace

Options parse_options(int argc, char** argv) {
    Options options;
    TrainOptions& train = options.train;
    int ranks = 0, dp = 0;
    for (int i = 1; i < argc; ++i) {
        const std::string name = argv[i];
        const auto text = [&] {
            if (i + 1 >= argc) {
                wrong("%s needs a value", name.c_str());
            }
            return argv[++i];
        };
        const auto value = [&] { return number(name.c_str(), text()); };
        const auto integer = [&] { return static_cast<int>(value()); };
        if (name == "--help" || name == "-h") {
            std::fputs(kHelp, stdout);
            std::exit(0);
        } else if (name == "--ranks") {
            ranks = integer();
        } else if (name == "--dp") {
            dp = integer();
        } else if (name == "--tp") {
            train.layout.tp = integer();
        } else if (name == "--pp") {
            train.layout.pp = integer();
        } else if (name == "--hosts") {
            options.hosts = integer();
        } else if (name == "--threads") {
            options.threads = train.one_process = true;
        } else if (name == "--use-split") {
            options.use_split = true;
        } else if (name == "--steps") {
            train.steps = integer();
        } else if (name == "--bytes") {
            train.bytes = static_cast<size_t>(value());
        } else if (name == "--step-ms") {
            train.step_ms = value();
        } else if (name == "--work-ms") {
            train.work_ms = value();
        } else if (name == "--kernels") {
            train.kernels = integer();
        } else if (name == "--poll") {
            train.poll = true;
        } else if (name == "--unmarked") {
            train.unmarked = true;
        } else if (name == "--nvtx") {
            train.nvtx = true;
            if (!SIMGPU_HAS_NVTX) {
                wrong("%s: built without the toolkit's nvtx3 headers", "--nvtx");
            }
        } else if (name == "--graphs") {
            train.graphs = true;
        } else if (name == "--checkpoint-every") {
            train.checkpoint_every = integer();
        } else if (name == "--gradients") {
            const std::string mode = text();
            if (mode != "sharded" && mode != "allreduce") {
                wrong("--gradients %s: must be sharded or allreduce", mode.c_str());
            }
            train.sharded_gradients = mode == "sharded";
        } else if (name == "--hang-timeout-s") {
            train.hang_timeout_s = value();
        } else if (name == "--timeout-s") {
            options.timeout_s = value();
        } else if (name == "--fail-fast") {
            options.fail_fast = true;
        } else if (name == "--keep-going") {
            options.fail_fast = false;
        } else if (name == "--pid-file") {
            options.pid_file = text();
        } else {
            wrong("unknown option %s", name.c_str());
        }
    }
    const int others = train.layout.tp * train.layout.pp;
    if (others < 1) {
        wrong("%s must be at least 1", "--tp and --pp");
    }
    train.layout.dp = dp ? dp : ranks ? ranks / others : others > 1 ? 1 : 4;
    if (train.layout.world() < 1 || (ranks && train.layout.world() != ranks)) {
        wrong("%s does not equal dp x tp x pp", "--ranks");
    }
    if (options.hosts < 1 || train.layout.world() % options.hosts) {
        wrong("%s must divide the number of ranks", "--hosts");
    }
    if (options.threads && options.hosts > 1) {
        wrong("%s cannot play several hosts", "--threads");
    }
    return options;
}

}  // namespace simgpu
