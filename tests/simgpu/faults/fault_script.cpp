#include "fault_script.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace simgpu {

namespace {

struct ActionRow {
    FaultAction action;
    const char* word;
    FaultPlace place;
    const char* parameter;
};

constexpr ActionRow kActions[] = {
#define ROW(name, word, where, parameters) {FaultAction::name, word, FaultPlace::where, parameters},
    SIMGPU_FAULT_ACTIONS(ROW)
#undef ROW
};

const ActionRow& row_of(FaultAction action) { return kActions[static_cast<size_t>(action)]; }

struct BadScript : std::runtime_error {
    using std::runtime_error::runtime_error;
};

template <typename T>
T number(const std::string& key, const std::string& text) {
    // The oldest compiler that builds the stand-ins (tests/wheel) has no from_chars for floating-point numbers.
    T value{};
    std::istringstream in(text);
    if (!(in >> std::noskipws >> value) || in.peek() != EOF || value < 0) {
        throw BadScript(key + "=" + text + ": not a number");
    }
    return value;
}

// "4", "4-6", "4-" (from 4 on)
FaultRange range(const std::string& key, const std::string& text) {
    const size_t dash = text.find('-');
    FaultRange out;
    out.first = number<int64_t>(key, text.substr(0, dash));
    if (dash == std::string::npos) {
        out.last = out.first;
    } else if (dash + 1 < text.size()) {
        out.last = number<int64_t>(key, text.substr(dash + 1));
    }
    if (out.last < out.first) {
        throw BadScript(key + "=" + text + ": the range is backwards");
    }
    return out;
}

std::vector<FaultRange> ranges(const std::string& key, const std::string& text) {
    std::vector<FaultRange> out;
    if (text == "*") {
        return out;
    }
    std::istringstream parts(text);
    for (std::string part; std::getline(parts, part, ',');) {
        out.push_back(range(key, part));
    }
    if (out.empty()) {
        throw BadScript(key + ": empty");
    }
    return out;
}

std::string one_of(const std::string& key, const std::string& text, std::initializer_list<const char*> words) {
    std::string known;
    for (const char* word : words) {
        if (text == word) {
            return text;
        }
        known += (known.empty() ? "" : ", ") + std::string(word);
    }
    throw BadScript(key + "=" + text + ": must be one of " + known);
}

void set_parameter(Fault& fault, const std::string& key, const std::string& value) {
    if (key == "kind") {
        fault.kind = one_of(key, value, {"allreduce", "broadcast", "reduce", "allgather", "reducescatter"});
    } else if (key == "factor") {
        fault.factor = number<double>(key, value);
    } else if (key == "type") {
        fault.type = one_of(
            key, value,
            {"int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "bfloat16"});
    } else if (key == "op") {
        fault.op = one_of(key, value, {"sum", "prod", "max", "min", "avg"});
    } else if (key == "root") {
        fault.root = number<int>(key, value);
    } else if (key == "with") {
        fault.with = value;
    } else if (key == "ms") {
        fault.ms = number<int64_t>(key, value);
    } else if (key == "code") {
        fault.code = number<int>(key, value);
    } else {
        fault.result = number<int>(key, value);
    }
}

void set_field(Fault& fault, const ActionRow& row, const std::string& key, const std::string& value) {
    if (key == "rank") {
        fault.ranks = ranges(key, value);
    } else if (key == "comm") {
        fault.comm = value;
    } else if (key == "step") {
        fault.step = range(key, value);
    } else if (key == "nth") {
        fault.nth = number<int64_t>(key, value);
    } else if (key == "seq") {
        fault.seq = number<int64_t>(key, value);
    } else if (key == row.parameter) {
        set_parameter(fault, key, value);
    } else {
        throw BadScript("'" + key + "' is not a word that " + row.word + " understands");
    }
}

const ActionRow& find_action(const std::string& word) {
    std::string known;
    for (const ActionRow& row : kActions) {
        if (word == row.word) {
            return row;
        }
        known += (known.empty() ? "" : ", ") + std::string(row.word);
    }
    throw BadScript("unknown fault '" + word + "' (known: " + known + ")");
}

void check(const Fault& fault, const ActionRow& row) {
    if (fault.nth && fault.seq) {
        throw BadScript("nth and seq exclude each other");
    }
    if (fault.comm.empty() && (fault.nth || fault.seq)) {
        throw BadScript("nth and seq need comm=NAME");
    }
    if (row.place == FaultPlace::kReplay && !fault.comm.empty()) {
        throw BadScript(std::string(row.word) + " strikes a whole graph: no comm, nth or seq");
    }
    const bool needs_comm = row.place == FaultPlace::kOp || row.place == FaultPlace::kCreation;
    if (needs_comm && fault.comm.empty()) {
        throw BadScript(std::string(row.word) + " needs comm=NAME");
    }
    if (row.place == FaultPlace::kCreation && (fault.step || fault.nth || fault.seq)) {
        throw BadScript(std::string(row.word) + " happens before the first step: no step, nth or seq");
    }
    const auto needs = [&](FaultAction action, const std::string& value) {
        if (fault.action == action && value.empty()) {
            throw BadScript(std::string(row.word) + " needs " + row.parameter + "=");
        }
    };
    needs(FaultAction::kOther, fault.kind);
    needs(FaultAction::kDtype, fault.type);
    needs(FaultAction::kRedop, fault.op);
    needs(FaultAction::kSwap, fault.with);
}

std::optional<Fault> parse_line(const std::string& line) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string word;
    if (!(words >> word)) {
        return std::nullopt;
    }
    const ActionRow& row = find_action(word);
    Fault fault;
    fault.action = row.action;
    fault.text = line;
    while (words >> word) {
        const size_t equals = word.find('=');
        if (equals == std::string::npos || equals + 1 == word.size()) {
            throw BadScript("'" + word + "' is not key=value");
        }
        set_field(fault, row, word.substr(0, equals), word.substr(equals + 1));
    }
    check(fault, row);
    if (!fault.comm.empty() && !fault.nth && !fault.seq) {
        fault.nth = 0;
    }
    return fault;
}

}  // namespace

bool Fault::hits_rank(int rank) const {
    if (ranks.empty()) {
        return true;
    }
    for (const FaultRange& range : ranks) {
        if (range.contains(rank)) {
            return true;
        }
    }
    return false;
}

FaultScript FaultScript::parse(const std::string& text, std::string* error) {
    FaultScript script;
    error->clear();
    std::istringstream lines(text);
    int number = 0;
    for (std::string line; std::getline(lines, line);) {
        ++number;
        std::istringstream parts(line.substr(0, line.find('#')));
        for (std::string part; std::getline(parts, part, ';');) {
            try {
                if (auto fault = parse_line(part)) {
                    script.faults_.push_back(std::move(*fault));
                }
            } catch (const BadScript& bad) {
                *error = "line " + std::to_string(number) + ": " + bad.what();
                return {};
            }
        }
    }
    return script;
}

FaultScript FaultScript::from_environment() {
    std::string text, source = "SIMGPU_FAULTS";
    if (const char* inline_text = std::getenv("SIMGPU_FAULTS")) {
        text = inline_text;
    } else if (const char* path = std::getenv("SIMGPU_FAULT_FILE")) {
        source = path;
        std::ifstream file(path);
        if (!file) {
            std::fprintf(stderr, "simgpu: cannot read the fault file %s\n", path);
            std::exit(2);
        }
        std::ostringstream all;
        all << file.rdbuf();
        text = all.str();
    }
    std::string error;
    FaultScript script = parse(text, &error);
    if (!error.empty()) {
        std::fprintf(stderr, "simgpu: bad fault script in %s: %s\n", source.c_str(), error.c_str());
        std::exit(2);
    }
    return script;
}

std::vector<const Fault*> FaultScript::at(const FaultPoint& point) const {
    std::vector<const Fault*> hits;
    for (const Fault& fault : faults_) {
        const FaultPlace place = fault_place(fault.action);
        const bool fits = place == point.place || (place == FaultPlace::kAnywhere && point.place == FaultPlace::kOp);
        if (!fits || !fault.hits_rank(point.rank) || fault.comm != point.comm) {
            continue;
        }
        if (point.place != FaultPlace::kCreation &&
            ((fault.step && !fault.step->contains(point.step)) || (fault.nth && *fault.nth != point.nth) ||
             (fault.seq && *fault.seq != point.seq))) {
            continue;
        }
        hits.push_back(&fault);
    }
    return hits;
}

const char* fault_word(FaultAction action) { return row_of(action).word; }
FaultPlace fault_place(FaultAction action) { return row_of(action).place; }

}  // namespace simgpu
