// The samples of one reader, as make_corpus.py writes them: a directory of files, and the table EXPECTED of what the
// reader must say of each.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "target.h"

namespace titan::fuzz {

struct Sample {
    std::string name;
    Bytes bytes;
    std::string expected;  // stands in what read() says
};

inline Bytes file_bytes(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) {
        throw std::runtime_error("cannot open " + path.string());
    }
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Throws if there are none.
inline std::vector<Sample> read_corpus(const std::filesystem::path& directory) {
    std::vector<Sample> samples;
    std::ifstream table(directory / "EXPECTED");
    for (std::string line; std::getline(table, line);) {
        const size_t colon = line.find(": ");
        const std::string name = line.substr(0, colon);
        samples.push_back({name, file_bytes(directory / name), line.substr(colon + 2)});
    }
    if (samples.empty()) {
        throw std::runtime_error("no samples in " + directory.string());
    }
    return samples;
}

}  // namespace titan::fuzz
