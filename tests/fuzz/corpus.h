// The samples of one reader: its directory of files, and the table EXPECTED of what the reader must say of each.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
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

struct Corpus {
    std::string layout;  // versions of the layouts when it was written
    std::vector<Sample> samples;
};

inline Bytes file_bytes(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) {
        throw std::runtime_error("cannot open " + path.string());
    }
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Throws where files and table do not agree.
inline Corpus read_corpus(const std::filesystem::path& directory) {
    constexpr const char* kTable = "EXPECTED";
    Corpus corpus;
    std::map<std::string, std::string> expected;
    std::ifstream table(directory / kTable);
    std::getline(table, corpus.layout);
    for (std::string line; std::getline(table, line);) {
        const size_t colon = line.find(": ");
        expected[line.substr(0, colon)] = colon == std::string::npos ? "" : line.substr(colon + 2);
    }
    for (const auto& [name, words] : expected) {
        corpus.samples.push_back({name, file_bytes(directory / name), words});
    }
    for (const auto& entry : std::filesystem::directory_iterator(directory)) {
        const std::string name = entry.path().filename().string();
        if (name != kTable && !expected.contains(name)) {
            throw std::runtime_error(entry.path().string() + " is not in " + kTable);
        }
    }
    if (corpus.samples.empty()) {
        throw std::runtime_error("no samples in " + directory.string());
    }
    return corpus;
}

}  // namespace titan::fuzz
