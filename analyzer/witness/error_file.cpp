// The error file that torchrun gives each worker (TORCHELASTIC_ERROR_FILE):
// LOG_DIR/RUN_SUFFIX/attempt_N/LOCAL_RANK/error.json. PyTorch's
// @record writes it:
//
//   {"message": {"message": "RuntimeError: ...", "extraInfo": {"py_callstack": "Traceback ...", "timestamp":
//   "1795336072"}}}
//
// Only the path tells whose it is, by its rank on its node; torchrun's own log names the file and so the rank.
#include <fmt/format.h>

#include <filesystem>

#include "host/json_value.h"
#include "lines.h"
#include "readers.h"
#include "tracebacks.h"

namespace titan::analyzer {
namespace {

constexpr size_t kMaxErrorFileBytes = size_t{1} << 20;
constexpr size_t kMaxMessageBytes = 400;

// attempt_0/2/error.json; the local rank is that of the job where one node runs all of it.
void read_place(const std::string& path, Testimony& said) {
    const std::filesystem::path file(path);
    const std::string rank = file.parent_path().filename().string();
    const std::string attempt = file.parent_path().parent_path().filename().string();
    std::string_view digits = rank;
    said.local_rank = take_rank(digits);
    digits = attempt;
    if (take_until(digits, "attempt_")) {
        said.attempt = take_rank(digits);
    }
}

std::string string_at(const Json& object, const char* name) { return std::string(object.at(name).text().value_or("")); }

}  // namespace

bool is_error_file(const WitnessFile& file) {
    return file.text.size() < kMaxErrorFileBytes &&
           without_spaces(file.text.substr(0, 64)).starts_with("{\"message\":");
}

void read_error_file(const WitnessFile& file, std::vector<Testimony>& into) {
    const std::optional<Json> json = Json::parse(file.text);
    if (!json) {
        return;
    }
    const Json& message = json->at("message");
    Testimony said;
    said.claim = Claim::kEnded;
    std::string where;
    std::string time = string_at(*json, "timestamp");
    if (message.is_object()) {
        said.message = string_at(message, "message");
        const Json& extra = message.at("extraInfo");
        time = string_at(extra, "timestamp");
        where = place_in_traceback(string_at(extra, "py_callstack"));
        const std::optional<int64_t> code = message.at("errorCode").integer();
        said.signal = code ? signal_of_status(*code) : 0;
    } else {
        said.message = message.text().value_or("");
    }
    said.message = said.message.substr(0, said.message.find('\n')).substr(0, kMaxMessageBytes);
    if (said.message.empty()) {
        return;
    }
    std::string_view digits = time;
    const auto seconds = take_number(digits);
    said.time_ns = seconds && *seconds > 0 ? int64_t{*seconds} * 1'000'000'000 : 0;
    read_place(file.path, said);
    said.text = fmt::format("{}{}{}", said.message, where.empty() ? "" : ", at ", where);
    into.push_back(std::move(said));
}

}  // namespace titan::analyzer
