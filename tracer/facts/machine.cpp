#include "machine.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>

#include "base/fd.h"
#include "base/maps.h"
#include "base/private_dir.h"
#include "base/process.h"
#include "base/text.h"
#include "rooted_path.h"

namespace titan::tracer {
namespace {

constexpr size_t kMostDevices = 64;

struct Name {
    char text[64];
};

// Texts that are put in order, so that equal machines are told in equal words.
class Names {
  public:
    void add(const char* text) {
        if (count_ < kMostDevices && text[0] != '\0') {
            copy_text(names_[count_++].text, sizeof(Name::text), text);
        }
    }

    void sort() {
        std::sort(names_, names_ + count_, [](const Name& a, const Name& b) { return strcmp(a.text, b.text) < 0; });
    }

    // Each text with how often it is there: "8 x NVIDIA H100 80GB HBM3".
    void write_counted(TextWriter& out) const {
        for (size_t first = 0, end = 0; first < count_; first = end) {
            for (end = first; end < count_ && same_text(names_[end].text, names_[first].text); ++end) {
            }
            out.format("%s%zu x %s", first == 0 ? "" : ", ", end - first, names_[first].text);
        }
    }

    void write_each(TextWriter& out) const {
        for (size_t i = 0; i < count_; ++i) {
            out.format("%s%s", i == 0 ? "" : ", ", names_[i].text);
        }
    }

  private:
    Name names_[kMostDevices];
    size_t count_ = 0;
};

// The value of the first line that begins with `key`: "Model: \t NVIDIA H100", "model name\t: AMD EPYC".
void read_field(int dir_fd, const char* path, const char* key, char* out, size_t capacity_bytes) {
    char text[2048];
    read_small_file(dir_fd, path, text, sizeof(text));
    for (const char* line = text; *line != '\0'; line += strcspn(line, "\n"), line += *line == '\n' ? 1 : 0) {
        if (!starts_with(line, key)) {
            continue;
        }
        const char* value = line + strlen(key);
        value += strspn(value, " \t:");
        const size_t length = std::min(strcspn(value, "\n"), capacity_bytes - 1);
        memcpy(out, value, length);
        out[length] = '\0';
        return;
    }
}

Fd open_dir(const char* root, const char* path) {
    return Fd(open(RootedPath(root, path).text, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

// "/proc/driver/nvidia/gpus/0000:1b:00.0/information" has a line "Model: NVIDIA H100 80GB HBM3" (NVIDIA's kernel
// module, nv-procfs.c).
void read_gpus(const char* root, char* out, size_t capacity_bytes) {
    Names models;
    if (const Fd gpus = open_dir(root, "/proc/driver/nvidia/gpus"); gpus.valid()) {
        each_entry(gpus.get(), [&](const char* bus_id) {
            char path[96];
            Name model{};
            format_text(path, sizeof(path), "%s/information", bus_id);
            read_field(gpus.get(), path, "Model", model.text, sizeof(model.text));
            models.add(model.text);
            return true;
        });
    }
    models.sort();
    TextWriter writer(out, capacity_bytes);
    models.write_counted(writer);
}

// hca_type is what the driver calls the kind of a device; it is kept in memory (Linux,
// ABI/stable/sysfs-class-infiniband).
void read_infiniband(const char* root, char* out, size_t capacity_bytes) {
    Names devices;
    if (const Fd all = open_dir(root, "/sys/class/infiniband"); all.valid()) {
        each_entry(all.get(), [&](const char* device) {
            char path[96];
            char kind[40];
            Name name{};
            format_text(path, sizeof(path), "%s/hca_type", device);
            read_small_file(all.get(), path, kind, sizeof(kind));
            format_text(name.text, sizeof(name.text), "%s%s%s", device, kind[0] == '\0' ? "" : " ", kind);
            devices.add(name.text);
            return true;
        });
    }
    devices.sort();
    TextWriter writer(out, capacity_bytes);
    devices.write_each(writer);
}

// The directory that holds lib/libtorch_cpu.so. Not from the dynamic linker: it may be locked for ever.
bool find_torch(char (&directory)[PATH_MAX]) {
    constexpr const char* kEnding = "/lib/libtorch_cpu.so";
    char room[4300];
    MapsReader maps(getpid(), room, sizeof(room));
    for (Mapping mapping; maps.next(mapping);) {
        const size_t length = strlen(mapping.path);
        if (length > strlen(kEnding) && same_text(mapping.path + length - strlen(kEnding), kEnding) &&
            copy_text(directory, sizeof(directory), mapping.path)) {
            directory[length - strlen(kEnding)] = '\0';
            return true;
        }
    }
    return false;
}

// The quoted text of the first line that begins so: __version__ = '2.13.0+cu130', cuda: Optional[str] = '13.0'.
void read_quoted(const char* text, const char* line_start, char* out, size_t capacity_bytes) {
    out[0] = '\0';
    const char* const line = strstr(text, line_start);
    const size_t before = line == nullptr ? 0 : strcspn(line, "'\n");
    if (line != nullptr && line[before] == '\'') {
        const char* const begin = line + before + 1;
        TextWriter(out, capacity_bytes).text(begin, strcspn(begin, "'\n"));
    }
}

// "2.13.0+cu130, CUDA 13.0", from torch/version.py beside the library that is loaded; empty without PyTorch.
void read_torch_version(char* out, size_t capacity_bytes) {
    char directory[PATH_MAX];
    char path[PATH_MAX + 16];
    char text[2048];
    char version[48];
    char cuda[24];
    TextWriter words(out, capacity_bytes);
    if (!find_torch(directory)) {
        return;
    }
    format_text(path, sizeof(path), "%s/version.py", directory);
    read_small_file(AT_FDCWD, path, text, sizeof(text));
    read_quoted(text, "__version__ = ", version, sizeof(version));
    read_quoted(text, "\ncuda", cuda, sizeof(cuda));
    words.text(version);
    if (cuda[0] != '\0') {
        words.format(", CUDA %s", cuda);
    }
}

}  // namespace

Machine read_machine(const char* root) {
    Machine machine{};
    read_field(AT_FDCWD, RootedPath(root, "/proc/cpuinfo").text, "model name", machine.processor,
               sizeof(machine.processor));
    read_small_file(AT_FDCWD, RootedPath(root, "/sys/module/nvidia/version").text, machine.gpu_driver,
                    sizeof(machine.gpu_driver));
    read_gpus(root, machine.gpus, sizeof(machine.gpus));
    read_infiniband(root, machine.infiniband, sizeof(machine.infiniband));
    read_torch_version(machine.torch, sizeof(machine.torch));
    utsname system{};
    if (uname(&system) == 0) {
        copy_text(machine.kernel, sizeof(machine.kernel), system.release);
    }
    return machine;
}

}  // namespace titan::tracer
