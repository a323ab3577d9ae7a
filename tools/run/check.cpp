#include "run/check.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "base/fd.h"
#include "base/process.h"
#include "base/text.h"
#include "host/node_rings.h"
#include "host/output.h"
#include "host/words.h"
#include "run/installed.h"
#include "run/records.h"
#include "run/settings.h"
#include "run/target.h"

namespace titan::tools {
namespace {

namespace files = std::filesystem;

enum class Answer { kYes, kNote, kNo };

struct Row {
    const char* topic;
    Answer answer = Answer::kYes;
    std::string found;
    std::string advice;  // advice in case of a "no"
};

// What was found; if it is nothing, `none` and what that means.
Row row_of(const char* topic, const std::string& found, const char* none, const char* advice,
           Answer without = Answer::kNote) {
    return found.empty() ? Row{topic, without, none, advice} : Row{topic, Answer::kYes, printable(found), ""};
}

// Nothing is found in the way, or this.
Row obstacle_row(const char* topic, const std::string& found, const char* none, const char* advice,
                 Answer with = Answer::kNote) {
    return found.empty() ? Row{topic, Answer::kYes, none, ""} : Row{topic, with, found, advice};
}

constexpr uint64_t kRingBytes = 7u << 20;  // size with the default settings; docs/reference/settings.md

std::string first_line_of(const std::string& path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
}

// The first line that a command prints; empty where it fails.
std::string output_line_of(const std::string& command) {
    FILE* const pipe = ::popen(command.c_str(), "r");
    std::array<char, 1024> text{};
    const bool any = pipe != nullptr && std::fgets(text.data(), text.size(), pipe) != nullptr;
    const bool good = pipe != nullptr && ::pclose(pipe) == 0;
    const std::string line = any && good ? text.data() : "";
    return line.substr(0, line.find('\n'));
}

// Asks the Python that the job would use, without importing PyTorch, which takes seconds.
std::string ask_python(const std::string& expression) {
    return output_line_of(
        "LD_PRELOAD= python3 -c 'import glob, importlib.util, os, re, sys\n"
        "def below(name, pattern):\n"
        "    spec = importlib.util.find_spec(name)\n"
        "    roots = list(spec.submodule_search_locations or []) if spec else []\n"
        "    return [p for root in roots for p in sorted(glob.glob(os.path.join(root, pattern)))]\n"
        "print(" +
        expression + ")' 2>/dev/null");
}

std::string library_on_path(const std::string& name) {
    std::istringstream directories(
        environment("LD_LIBRARY_PATH") +
        ":/usr/local/cuda/lib64:/usr/lib/x86_64-linux-gnu:/usr/lib/aarch64-linux-gnu:/usr/lib64:/usr/lib");
    for (std::string directory; std::getline(directories, directory, ':');) {
        std::error_code failed;
        if (!directory.empty() && files::exists(directory + "/" + name, failed)) {
            return directory + "/" + name;
        }
    }
    return "";
}

// The library contains "NCCL version 2.27.5+cuda12.9".
std::string nccl_version(const std::string& path) {
    const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    constexpr std::string_view kWords = "NCCL version ";
    std::string part(size_t{4} << 20, '\0');
    for (uint64_t offset = 0; file.valid();) {
        const size_t got = read_at(file.get(), offset, part.data(), part.size());
        for (size_t at = 0; (at = part.find(kWords, at)) < got; ++at) {
            const size_t begin = at + kWords.size();
            const size_t end = part.find_first_not_of("0123456789.", begin);
            if (end < got && end > begin + 2) {
                return part.substr(begin, end - begin);
            }
        }
        if (got < part.size()) {
            break;
        }
        offset += got - 256;
    }
    return "";
}

Row library_row(const Settings& settings) {
    if (settings.library.empty()) {
        return {"library", Answer::kNo, "libtitantrace.so is not where titan-run looks",
                "install titantrace as a whole, or pass --library PATH"};
    }
    const Target shell = look_at("sh", settings.library);
    return {"library", shell.preload ? Answer::kYes : Answer::kNo,
            printable(settings.library) + (shell.preload ? " can be preloaded" : ": " + shell.obstacle),
            shell.preload ? "" : "take the build for this machine; on musl (Alpine) use an image with glibc"};
}

Row switch_row() {
    const std::string value = environment("TITANTRACE");
    return obstacle_row("switched on", is_off(value.c_str()) ? "TITANTRACE=" + printable(value) : "", "yes",
                        "unset TITANTRACE", Answer::kNo);
}

Row preload_row() {
    std::string found = environment("LD_PRELOAD");
    const std::string system = first_line_of("/etc/ld.so.preload");
    found += (found.empty() || system.empty() ? "" : " and ") + system;
    return obstacle_row("other preloads", printable(found), "none", "they are kept, in front of ours");
}

Row driver_row() {
    const std::string version = first_line_of("/proc/driver/nvidia/version");
    size_t count = 0;
    while (files::exists(fmt::format("/dev/nvidia{}", count))) {
        ++count;
    }
    if (version.empty()) {
        return {"NVIDIA driver", Answer::kNo, "none is loaded",
                "run --check on a GPU node, in the container of the job"};
    }
    return {"NVIDIA driver", count > 0 ? Answer::kYes : Answer::kNo,
            fmt::format("{}; {}", printable(version), counted(count, "GPU")),
            count > 0 ? "" : "give the container its GPUs"};
}

Row cuda_row() {
    std::string path = ask_python(
        "([*below(\"nvidia\", \"cu*/lib/libcudart.so.1[23]\"), *below(\"nvidia\", "
        "\"cuda_runtime/lib/libcudart.so.1[123]*\")] or [\"\"])[0]");
    for (const char* name : {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"}) {
        path = path.empty() ? library_on_path(name) : path;
    }
    return row_of("CUDA runtime", path, "not found in the usual places",
                  "CUDA 11.8 to 13 is recorded wherever the program has it from");
}

Row nccl_row() {
    std::string path = ask_python("(below(\"nvidia\", \"nccl/lib/libnccl.so.2\") or [\"\"])[0]");
    path = path.empty() ? library_on_path("libnccl.so.2") : path;
    if (path.empty()) {
        return {"NCCL", Answer::kNote, "not found in the usual places",
                "NCCL 2.18 and newer is recorded wherever the program has it from"};
    }
    const std::string version = nccl_version(path);
    unsigned major = 0;
    unsigned minor = 0;
    const bool known = std::sscanf(version.c_str(), "%u.%u", &major, &minor) == 2;
    const bool old = known && major == 2 && minor < 18;
    return {"NCCL", old ? Answer::kNo : Answer::kYes,
            fmt::format("{} ({})", version.empty() ? "unknown version" : version, printable(path)),
            old ? "calls of NCCL before 2.18 may be missed" : ""};
}

Row pytorch_row() {
    const std::string version = ask_python(
        "(re.findall(\"__version__.*?=.*?(\\\\d[^\\\\x22\\\\x27]*)\", \"\".join(open(p).read() for p in "
        "below(\"torch\", \"version.py\"))) or "
        "[\"\"])[0]");
    return row_of("PyTorch", version, "not in python3's environment",
                  "not needed: any program that uses NCCL is recorded");
}

Row profiler_row() {
    std::string found;
    for (const char* name : {"NCCL_PROFILER_PLUGIN", "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH",
                             "NCCL_TUNER_PLUGIN", "NCCL_NET_PLUGIN"}) {
        if (const std::string value = environment(name); !value.empty()) {
            found += fmt::format("{}{}={}", found.empty() ? "" : ", ", name, printable(value));
        }
    }
    return obstacle_row("profilers, plugins", found, "none",
                        "they keep their place; what only they are given (channels, NVTX ranges) is not recorded");
}

// What the recorder will choose depends on the job, and is in `python -m titantrace status` once that runs.
Row gpu_progress_row() {
    const std::string method = environment("TITANTRACE_GPU_PROGRESS");
    const std::string budget = environment("TITANTRACE_BUDGET");
    if (!method.empty() && method != "auto") {
        return {"GPU progress", Answer::kNote, printable(method) + " (TITANTRACE_GPU_PROGRESS)",
                "chosen by hand: TITANTRACE_BUDGET has no effect"};
    }
    const std::string percent = budget.empty() ? "0.3" : printable(budget);
    return {"GPU progress", Answer::kYes,
            percent + "% of each step (TITANTRACE_BUDGET): stream writes, and events where calls are too frequent", ""};
}

Row stacks_row() {
    int32_t word = 17;
    int32_t copy = 0;
    const iovec from{&word, sizeof(word)};
    const iovec into{&copy, sizeof(copy)};
    const bool readable = ::process_vm_readv(::getpid(), &into, 1, &from, 1, 0) == sizeof(word);
    const bool memory = Fd(::open("/proc/self/mem", O_RDONLY | O_CLOEXEC)).valid();
    std::array<char, 4096> text{};
    read_small_file(AT_FDCWD, "/proc/self/status", text.data(), text.size());
    const char* const filter = proc_field(text.data(), "Seccomp");
    const std::string seccomp = filter != nullptr && *filter != '0' ? "a seccomp filter is on; " : "";
    if (readable || memory) {
        return {"stacks", Answer::kYes,
                seccomp + (readable ? "memory can be read safely" : "read through /proc/self/mem"), ""};
    }
    return {"stacks", Answer::kNo, seccomp + "neither process_vm_readv nor /proc/self/mem works",
            "dumps will say that stacks are missing; allow process_vm_readv in the seccomp profile"};
}

Row rings_row(const Settings& settings) {
    const std::string directory = ring_directories(settings.rings).front();
    const std::string trouble = trouble_with_rings(directory);
    struct statvfs room {};
    if (!trouble.empty() || ::statvfs(directory.c_str(), &room) != 0) {
        return {"rings", Answer::kNo, trouble.empty() ? printable(directory) + " does not exist" : trouble,
                "rings will go to /tmp; containers: --shm-size=1g, or an emptyDir of medium Memory at /dev/shm"};
    }
    const uint64_t free_bytes = room.f_bavail * room.f_frsize;
    const uint64_t fit = free_bytes / 16 < kRingBytes ? 0 : free_bytes / kRingBytes;
    return {"rings", fit >= 8 ? Answer::kYes : Answer::kNote,
            fmt::format("{}: {} MB free of {} MB, 7 MB per process", printable(directory), free_bytes >> 20,
                        (room.f_blocks * room.f_frsize) >> 20),
            fit >= 8 ? "" : "rings will be smaller, with fewer calls in them; containers: --shm-size=1g"};
}

Row dumps_row(const Settings& settings) {
    const std::string trouble = trouble_with_dumps(settings.dumps);
    return {"dumps", trouble.empty() ? Answer::kYes : Answer::kNo,
            trouble.empty() ? printable(settings.dumps) + "/ can be written" : trouble,
            trouble.empty() ? "" : "choose another one with --dir; all nodes of a job must share it"};
}

Row limits_row() {
    std::string low;
    const auto look = [&](int what, const char* name, rlim_t least) {
        rlimit limit{};
        if (::getrlimit(static_cast<__rlimit_resource_t>(what), &limit) == 0 && limit.rlim_cur < least) {
            low += fmt::format("{}{} is {}", low.empty() ? "" : ", ", name, limit.rlim_cur);
        }
    };
    look(RLIMIT_NOFILE, "ulimit -n", 1024);
    look(RLIMIT_FSIZE, "ulimit -f", kRingBytes);
    look(RLIMIT_SIGPENDING, "ulimit -i", 256);
    return obstacle_row("limits", low, "open files, file size, pending signals suffice",
                        "raise them: rings may be smaller and stacks missing");
}

Row analyzer_row() {
    return row_of("titan-analyze", analyzer_path(), "not beside titan-run",
                  "install titantrace as a whole: titan-run prints no verdict without it", Answer::kNo);
}

}  // namespace

bool print_check(const Settings& settings) {
    const std::vector<Row> rows = {library_row(settings), switch_row(),        preload_row(),
                                   driver_row(),          cuda_row(),          nccl_row(),
                                   pytorch_row(),         profiler_row(),      gpu_progress_row(),
                                   stacks_row(),          rings_row(settings), dumps_row(settings),
                                   limits_row(),          analyzer_row()};
    bool all_good = true;
    for (const Row& row : rows) {
        const char* const answer = row.answer == Answer::kYes ? "ok" : row.answer == Answer::kNote ? "note" : "NO";
        print("{:<5} {:<19} {}\n", answer, row.topic, row.found);
        if (!row.advice.empty()) {
            print("{:<25} -> {}\n", "", row.advice);
        }
        all_good = all_good && row.answer != Answer::kNo;
    }
    return all_good;
}

}  // namespace titan::tools
