#include "scratch.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "formats/layout/dump_layout.h"
#include "log.h"

namespace titan::test {

namespace fs = std::filesystem;

Scratch::Scratch() {
    char name[] = "/tmp/titan-cold-XXXXXX";
    root_ = mkdtemp(name);
    fs::create_directories(rings());
}

Scratch::~Scratch() {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
}

std::string Scratch::ring_dir() const { return rings() + "/titantrace-" + std::to_string(geteuid()); }

std::vector<std::string> Scratch::dump_names(int attempt, const std::string& run) const {
    std::vector<std::string> names;
    for (const auto& name : list_dir(dumps() + "/" + run + "/" + std::to_string(attempt))) {
        if (name.ends_with(".titan")) {
            names.push_back(name);
        }
    }
    return names;
}

Environment rank_environment(const Scratch& scratch, int rank, int world_size) {
    return {{"RANK", std::to_string(rank)},       {"WORLD_SIZE", std::to_string(world_size)},
            {"LOCAL_RANK", std::to_string(rank)}, {"TITANTRACE_RUN_ID", "test"},
            {"TITANTRACE_DIR", scratch.dumps()},  {"TITANTRACE_RING_DIR", scratch.rings()},
            {"TMPDIR", scratch.path("")}};
}

void apply(const Environment& environment) {
    for (const auto& [name, value] : environment) {
        setenv(name.c_str(), value.c_str(), 1);
    }
}

pid_t start_child(const Environment& environment, const std::function<int()>& body, const std::string& error_path) {
    pid_t child = fork();
    if (child == 0) {
        titan::tracer::forget_logged();
        apply(environment);
        int errors = open(error_path.empty() ? "/dev/null" : error_path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
        dup2(errors, STDERR_FILENO);
        close(errors);
        alarm(2 * kPatienceNs / 1'000'000'000);
        _exit(body());
    }
    return child;
}

int wait_child(pid_t child) {
    int status = 0;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

int run_child(const Environment& environment, const std::function<int()>& body, const std::string& error_path) {
    return wait_child(start_child(environment, body, error_path));
}

bool eventually(const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(kPatienceNs);
    while (std::chrono::steady_clock::now() < deadline) {
        if (condition()) {
            return true;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return condition();
}

std::string read_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

std::vector<std::string> list_dir(const std::string& path) {
    std::vector<std::string> names;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(path, ignored)) {
        names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
}

ReadDump read_dump(const std::string& path) {
    std::string bytes = read_file(path);
    ReadDump dump;
    format::DumpHeader header;
    if (bytes.size() < sizeof(header)) {
        return dump;
    }
    memcpy(&header, bytes.data(), sizeof(header));
    size_t at = sizeof(header);
    if (header.magic != format::kDumpMagic || header.header_bytes != sizeof(header)) {
        return dump;
    }
    while (at + sizeof(format::SectionHeader) <= bytes.size()) {
        format::SectionHeader section;
        memcpy(&section, bytes.data() + at, sizeof(section));
        at += sizeof(section);
        if (section.check !=
            fnv1a64(reinterpret_cast<const unsigned char*>(&section), offsetof(format::SectionHeader, check))) {
            return dump;
        }
        if (section.kind == format::SectionKind::kEnd) {
            dump.complete = at == bytes.size();
            return dump;
        }
        std::string raw(section.raw_bytes, '\0');
        if (ZSTD_decompress(raw.data(), raw.size(), bytes.data() + at, section.stored_bytes) != section.raw_bytes) {
            return dump;
        }
        at += section.stored_bytes;
        if (section.kind == format::SectionKind::kMeta) {
            dump.meta = raw;
        } else if (section.kind == format::SectionKind::kRing) {
            dump.ring.resize(std::max(dump.ring.size(), section.offset_bytes + raw.size()));
            memcpy(dump.ring.data() + section.offset_bytes, raw.data(), raw.size());
        }
    }
    return dump;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace titan::test
