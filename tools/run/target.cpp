#include "run/target.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "base/fd.h"
#include "host/words.h"

namespace titan::tools {
namespace {

namespace files = std::filesystem;

struct Elf {
    std::string architecture;
    std::string interpreter;  // empty: linked statically
};

std::string machine_name(uint16_t machine) {
    switch (machine) {
        case EM_X86_64: return "x86_64";
        case EM_AARCH64: return "aarch64";
        default: return fmt::format("ELF machine {}", machine);
    }
}

bool read_elf(const std::string& path, Elf& elf) {
    const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    Elf64_Ehdr header{};
    if (!file.valid() || read_at(file.get(), 0, &header, sizeof(header)) < EI_NIDENT ||
        std::string_view(reinterpret_cast<const char*>(header.e_ident), SELFMAG) != ELFMAG) {
        return false;
    }
    if (header.e_ident[EI_CLASS] != ELFCLASS64) {
        elf.architecture = "a 32-bit machine";
        return true;
    }
    elf.architecture = machine_name(header.e_machine);
    for (size_t i = 0; i < header.e_phnum; ++i) {
        Elf64_Phdr part{};
        if (read_at(file.get(), header.e_phoff + i * sizeof(part), &part, sizeof(part)) != sizeof(part)) {
            break;
        }
        if (part.p_type == PT_INTERP && part.p_filesz < 4096) {
            elf.interpreter.resize(part.p_filesz);
            elf.interpreter.resize(read_at(file.get(), part.p_offset, elf.interpreter.data(), part.p_filesz));
            elf.interpreter = elf.interpreter.c_str();
        }
    }
    return true;
}

// The interpreter after "#!", or the one that `env` finds; empty: it is no script.
std::string interpreter_of_script(const std::string& path) {
    std::ifstream file(path);
    std::string line;
    if (!std::getline(file, line) || !line.starts_with("#!")) {
        return "";
    }
    std::istringstream words(line.substr(2));
    std::string program;
    words >> program;
    if (files::path(program).filename() == "env") {
        while (words >> program && program.starts_with('-')) {
        }
    }
    return find_program(program);
}

bool has_raised_rights(const std::string& path) {
    struct stat status {};
    return (::stat(path.c_str(), &status) == 0 && (status.st_mode & (S_ISUID | S_ISGID)) != 0) ||
           ::getxattr(path.c_str(), "security.capability", nullptr, 0) > 0;
}

// The loader's objection to the library for this program, which it loads but does not run.
std::string objection_of_loader(const std::string& interpreter, const std::string& path, const std::string& library) {
    std::array<int, 2> pipe{};
    if (::pipe2(pipe.data(), O_CLOEXEC) != 0) {
        return "";
    }
    const Fd out(pipe[0]);
    Fd in(pipe[1]);
    const pid_t child = ::fork();
    if (child == 0) {
        ::dup2(in.get(), STDERR_FILENO);
        ::dup2(::open("/dev/null", O_WRONLY), STDOUT_FILENO);
        ::setenv("LD_PRELOAD", library.c_str(), 1);
        ::setenv("LD_TRACE_LOADED_OBJECTS", "1", 1);
        ::execl(interpreter.c_str(), interpreter.c_str(), path.c_str(), nullptr);
        ::_exit(0);
    }
    in.close_now();
    std::string said;
    std::array<char, 512> part{};
    for (ssize_t count = 0; (count = ::read(out.get(), part.data(), part.size())) > 0;) {
        said.append(part.data(), static_cast<size_t>(count));
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) {
        return fmt::format("{} kills the loader (signal {}): it is damaged", printable(library), WTERMSIG(status));
    }
    std::istringstream lines(said);
    for (std::string line; std::getline(lines, line);) {
        if (line.find("libtitantrace.so") != std::string::npos) {
            return printable(line);
        }
    }
    return "";
}

}  // namespace

std::string architecture_of(const std::string& path) {
    Elf elf;
    return read_elf(path, elf) ? elf.architecture : "";
}

std::string find_program(const std::string& name) {
    if (name.find('/') != std::string::npos) {
        return ::access(name.c_str(), X_OK) == 0 ? name : "";
    }
    const char* const path = std::getenv("PATH");
    std::istringstream directories(path != nullptr ? path : "/bin:/usr/bin");
    for (std::string directory; std::getline(directories, directory, ':');) {
        std::string file = (directory.empty() ? "." : directory) + "/" + name;
        if (struct stat status{};
            ::access(file.c_str(), X_OK) == 0 && ::stat(file.c_str(), &status) == 0 && S_ISREG(status.st_mode)) {
            return file;
        }
    }
    return "";
}

Target look_at(const std::string& command, const std::string& library) {
    std::string path = find_program(command);
    Elf elf;
    for (int depth = 0; depth < 4 && !path.empty() && !read_elf(path, elf); ++depth) {
        path = interpreter_of_script(path);
    }
    if (path.empty() || elf.architecture.empty()) {
        return {};  // exec will say what is wrong
    }
    const std::string name = printable(path);
    if (const std::string ours = architecture_of(library); elf.architecture != ours) {
        return {fmt::format("{} is for {}, libtitantrace.so for {}", name, elf.architecture, ours), false};
    }
    if (elf.interpreter.find("ld-musl") != std::string::npos) {
        return {fmt::format("{} uses musl, libtitantrace.so needs glibc", name), false};
    }
    if (has_raised_rights(path)) {
        return {fmt::format("{} is setuid or has capabilities: the loader preloads nothing into it", name), true};
    }
    if (elf.interpreter.empty()) {
        return {fmt::format("{} is linked statically: only dynamic programs that it starts are recorded", name), true};
    }
    const std::string objection = objection_of_loader(elf.interpreter, path, library);
    return {objection, objection.empty()};
}

}  // namespace titan::tools
