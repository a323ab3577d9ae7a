#include "rendezvous.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>

#include "check.h"

namespace simgpu {

void publish_id(const std::string& directory, const std::string& name, const ncclUniqueId& id) {
    const std::string path = directory + "/" + name + ".id";
    {
        std::ofstream file(path + ".new", std::ios::binary);
        file.write(id.internal, sizeof(id.internal));
        if (!file) {
            die(kExitApiError, "cannot write %s.new", path.c_str());
        }
    }
    std::filesystem::rename(path + ".new", path);
}

ncclUniqueId await_id(const std::string& directory, const std::string& name) {
    ncclUniqueId id;
    for (;;) {
        std::ifstream file(directory + "/" + name + ".id", std::ios::binary);
        if (file && file.read(id.internal, sizeof(id.internal))) {
            return id;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
}

}  // namespace simgpu
