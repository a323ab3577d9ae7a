// Runs a target without a fuzzer: the samples as they are, which must be read or refused as their table says; each of
// them cut at 12 places; then mutations. A child runs them, so that whatever ends it, a hang and too much memory
// included, is told with its input, which is saved. libFuzzer brings its own main() for the same targets.
//
//   fuzz READER CORPUS [--inputs N] [--seed N] [--seconds N]    N mutations, or as many as the time allows
//   fuzz READER --replay FILE...                                what the reader says of each
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <thread>

#include "analysis.h"
#include "mutate.h"

namespace {

using namespace titan::fuzz;
using Clock = std::chrono::steady_clock;

constexpr size_t kMaxInputBytes = size_t{8} << 20;
constexpr size_t kMaxResidentBytes = size_t{2} << 30;
constexpr size_t kCuts = 12;                       // of each sample
constexpr auto kHangs = std::chrono::seconds(60);  // of the processor: the machine may have other work

// What the parent must know when the child is gone.
struct Shared {
    uint64_t started;  // inputs
    uint64_t done;
    char name[512];
    size_t size;
    unsigned char bytes[kMaxInputBytes];
};

struct Options {
    std::string reader;
    std::string corpus;
    uint64_t inputs = 10'000;
    uint64_t seed = 1;
    double seconds = 0;
    std::vector<std::string> replay;
};

Options parse(int argc, char** argv) {
    Options options;
    for (int i = 1; i < argc; ++i) {
        const std::string argument = argv[i];
        const char* value = i + 1 < argc ? argv[i + 1] : "";
        if (argument == "--replay") {
            options.replay.assign(argv + i + 1, argv + argc);
            return options;
        }
        if (argument == "--inputs" || argument == "--seed") {
            (argument == "--seed" ? options.seed : options.inputs) = std::strtoull(value, nullptr, 10);
            ++i;
        } else if (argument == "--seconds") {
            options.seconds = std::atof(value);
            ++i;
        } else {
            (options.reader.empty() ? options.reader : options.corpus) = argument;
        }
    }
    return options;
}

void begin(Shared& shared, const std::string& name, const Bytes& bytes) {
    std::snprintf(shared.name, sizeof(shared.name), "%s", name.c_str());
    shared.size = std::min(bytes.size(), kMaxInputBytes);
    std::copy_n(bytes.begin(), shared.size, shared.bytes);
    ++shared.started;
}

bool is_expected(const std::string& said, const std::string& expected) {
    return !expected.empty() && said.find(expected) != std::string::npos;
}

// How many samples were not read or refused as they must be.
int run_samples(const std::vector<Sample>& corpus, Shared& shared) {
    int wrong = 0;
    for (const Sample& sample : corpus) {
        begin(shared, sample.name, sample.bytes);
        const std::string said = read(sample.bytes);
        shared.done = shared.started;
        if (!is_expected(said, sample.expected)) {
            std::printf("%s: expected \"%s\", the reader says \"%s\"\n", sample.name.c_str(), sample.expected.c_str(),
                        said.c_str());
            ++wrong;
        }
    }
    return wrong;
}

void run_one(Shared& shared, const std::string& name, const Bytes& bytes) {
    begin(shared, name, bytes);
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
    shared.done = shared.started;
}

int run(const std::vector<Sample>& corpus, const Options& options, Shared& shared) {
    const auto started = Clock::now();
    const auto elapsed_s = [&] { return std::chrono::duration<double>(Clock::now() - started).count(); };
    const int wrong = run_samples(corpus, shared);
    for (const Sample& sample : corpus) {
        for (size_t size = 0; size < sample.bytes.size(); size += 1 + sample.bytes.size() / kCuts) {
            run_one(shared, sample.name + " cut after " + std::to_string(size) + " bytes",
                    Bytes(sample.bytes.begin(), sample.bytes.begin() + static_cast<std::ptrdiff_t>(size)));
        }
    }
    const uint64_t fixed = shared.done;
    Mutator mutator(corpus, options.seed);
    for (uint64_t i = 0; options.seconds > 0 ? elapsed_s() < options.seconds : i < options.inputs; ++i) {
        const auto [bytes, sample] = mutator.input(i);
        run_one(shared,
                "mutation " + std::to_string(i) + " with seed " + std::to_string(options.seed) + ", of " + sample->name,
                bytes);
    }
    std::printf("%zu samples, %llu cut ones, %llu mutations with seed %llu, in %.1f s\n", corpus.size(),
                static_cast<unsigned long long>(fixed - corpus.size()),
                static_cast<unsigned long long>(shared.done - fixed), static_cast<unsigned long long>(options.seed),
                elapsed_s());
    return wrong == 0 ? 0 : 1;
}

size_t resident_bytes(pid_t process) {
    unsigned long long pages = 0;
    if (std::FILE* file = std::fopen(("/proc/" + std::to_string(process) + "/statm").c_str(), "r")) {
        if (std::fscanf(file, "%*u %llu", &pages) != 1) {
            pages = 0;
        }
        std::fclose(file);
    }
    return pages * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

// Of the processor, since the process began.
std::chrono::nanoseconds time_used(pid_t process) {
    clockid_t clock = 0;
    timespec used{};
    if (::clock_getcpuclockid(process, &clock) != 0 || ::clock_gettime(clock, &used) != 0) {
        return {};
    }
    return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

// Waits for the child, but not for ever. An empty text: it ended by itself, with `status`.
std::string watch(pid_t child, const Shared& shared, int& status) {
    uint64_t seen = 0;
    auto since = time_used(child);
    while (::waitpid(child, &status, WNOHANG) == 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        if (seen != shared.started) {
            seen = shared.started;
            since = time_used(child);
        }
        const bool hangs = time_used(child) - since > kHangs;
        if (hangs || resident_bytes(child) > kMaxResidentBytes) {
            ::kill(child, SIGKILL);
            ::waitpid(child, &status, 0);
            return hangs ? "takes more than a minute" : "takes more than 2 GiB of memory";
        }
    }
    return {};
}

int tell(const Shared& shared, const std::string& what, const std::string& program, const std::string& reader) {
    if (shared.done == shared.started) {  // a leak, or the samples were not what they should be
        std::printf("after the last input: %s\n", what.c_str());
        return 1;
    }
    const std::string path =
        std::filesystem::absolute("fuzz-" + reader + "-" + std::to_string(shared.started) + ".input");
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(shared.bytes), static_cast<std::streamsize>(shared.size));
    std::printf("input %llu, %s: %s\nsaved; again with: %s %s --replay %s\n",
                static_cast<unsigned long long>(shared.started), shared.name, what.c_str(), program.c_str(),
                reader.c_str(), path.c_str());
    return 1;
}

int replay(const std::vector<std::string>& paths) {
    for (const std::string& path : paths) {
        const Bytes bytes = file_bytes(path);
        std::printf("%s: %s\n", path.c_str(), read(bytes).c_str());
        LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    const Options options = parse(argc, argv);
    if (!choose(options.reader)) {
        std::printf("usage: %s READER CORPUS|--replay FILE...: no reader is named \"%s\"\n", argv[0],
                    options.reader.c_str());
        return 2;
    }
    try {
        if (!options.replay.empty()) {
            return replay(options.replay);
        }
        const std::vector<Sample> corpus = read_corpus(options.corpus);
        void* memory =
            ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) {
            std::perror("fuzz");
            return 1;
        }
        auto& shared = *static_cast<Shared*>(memory);
        std::fflush(stdout);
        const pid_t child = ::fork();
        if (child == 0) {
            return run(corpus, options, shared);
        }
        int status = 0;
        std::string what = watch(child, shared, status);
        if (what.empty() && status == 0) {
            return 0;
        }
        if (what.empty()) {
            what = WIFSIGNALED(status) ? std::string("ended by signal ") + ::strsignal(WTERMSIG(status))
                                       : "ended with status " + std::to_string(WEXITSTATUS(status));
        }
        return tell(shared, what, argv[0], options.reader);
    } catch (const std::exception& error) {
        std::printf("%s\n", error.what());
        return 1;
    }
}
