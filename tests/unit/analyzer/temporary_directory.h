// A directory that is gone with the test.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>

namespace titan::test {

struct TemporaryDirectory {
    TemporaryDirectory() {
        char name[] = "/tmp/titan-test-XXXXXX";
        path = ::mkdtemp(name);
    }
    ~TemporaryDirectory() { std::filesystem::remove_all(path); }
    TemporaryDirectory(const TemporaryDirectory&) = delete;
    TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
    std::string path;
};

}  // namespace titan::test
