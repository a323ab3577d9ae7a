#include <algorithm>
#include <set>

#include "formats/json_value.h"
#include "host/words.h"
#include "json_schema.h"
#include "layout_report.h"
#include "report.h"

namespace titan::analyzer {
namespace {

using format::Json;

Json communicator_json(const Run& run, uint32_t index) {
    if (index == kNoIndex) {
        return nullptr;
    }
    const Communicator& communicator = run.communicators[index];
    return {{"id", id_text(communicator.id)}, {"name", communicator.name}, {"size", communicator.size}};
}

// How a process ended that is gone, as its own record tells it.
Json ended_json(const Process& process) {
    const Ending& ending = process.ending;
    const bool crashed = process.fatal_signal != 0;
    const bool exited = !crashed && ending.left_ns != 0;
    Json json{{"ended", crashed ? "crashed" : exited ? "exited" : "killed"}};
    if (exited && ending.exit_status >= 0) {
        json["status"] = ending.exit_status;
    }
    if (crashed || ending.asked()) {
        json["signal"] = signal_text(crashed ? process.fatal_signal : ending.signal);
    }
    return json;
}

Json finding_json(const Run& run, const Finding& finding) {
    Json json;
    json["kind"] = name_of(finding.kind);
    json["ranks"] = finding.ranks;
    json["victims"] = finding.victims;
    json["communicator"] = communicator_json(run, finding.communicator);
    json["seq"] = finding.sequence == kNoSequence ? Json(nullptr) : Json(finding.sequence);
    json["op"] = finding.op.empty() ? Json(nullptr) : Json(finding.op);
    json["confidence"] = name_of(finding.confidence);
    json["summary"] = finding.summary;
    json["evidence"] = finding.evidence;
    if (!finding.would_confirm.empty()) {
        json["would_confirm"] = finding.would_confirm;
    }
    if (!finding.cycle.empty()) {
        json["cycle"] = Json::array();
        for (const CycleStep& step : finding.cycle) {
            json["cycle"].push_back({{"rank", step.rank}, {"waits_in", step.waits_in}, {"for", step.waits_for}});
        }
    }
    Json states = Json::object();
    for (const auto& [rank, state] : finding.rank_state) {
        states[std::to_string(rank)] = state;
    }
    json["rank_state"] = states;
    if (!finding.stacks.empty()) {
        Json stacks = Json::object();
        for (const auto& [rank, frames] : finding.stacks) {
            Json& texts = stacks[std::to_string(rank)] = Json::array();
            for (const StackFrame& frame : frames) {
                texts.push_back(frame.text);
            }
        }
        json["stacks"] = stacks;
    }
    Json ends = Json::object();
    const std::set<int> named(finding.ranks.begin(), finding.ranks.end());
    for (const Process& process : run.processes) {
        if (named.contains(process.rank) && (process.is_gone() || process.liveness == Liveness::kEnded)) {
            ends[std::to_string(process.rank)] = ended_json(process);
        }
    }
    if (!ends.empty()) {
        json["ends"] = ends;
    }
    json["hangs"] = finding.hangs;
    json["remedy"] = row_of(finding.kind).remedy;
    return json;
}

Json pending_json(const Run& run, const Pending& pending) {
    return {{"ranks", pending.ranks},
            {"missing", pending.missing},
            {"communicator", communicator_json(run, pending.communicator)},
            {"seq", pending.sequence == kNoSequence ? Json(nullptr) : Json(pending.sequence)},
            {"op", pending.op},
            {"since_ns", pending.since_ns},
            {"waited_ns", pending.waited_ns},
            {"hang_after_ns", pending.hang_after_ns},
            {"summary", pending.summary}};
}

Json verdict_json(const Diagnosis& diagnosis) {
    if (diagnosis.findings.empty()) {
        return nullptr;
    }
    const Finding& head = diagnosis.findings.front();
    return {{"kind", name_of(head.kind)},
            {"ranks", head.ranks},
            {"summary", head.summary},
            {"confidence", name_of(head.confidence)}};
}

size_t end_of_string(const std::string& text, size_t begin) {
    size_t end = begin + 1;
    while (end < text.size() && text[end] != '"') {
        end += text[end] == '\\' ? 2 : 1;
    }
    return std::min(end, text.size() - 1);
}

// Lists of ranks on one line: a thousand lines of numbers hide the rest from a person.
std::string with_short_lists(const std::string& text) {
    std::string result;
    result.reserve(text.size());
    for (size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '[') {
            // Strings are copied whole: they may hold brackets.
            const size_t end = text[i] == '"' ? end_of_string(text, i) : i;
            result.append(text, i, end - i + 1);
            i = end;
            continue;
        }
        const size_t close = text.find_first_not_of("0123456789-, \n", i + 1);
        if (close == std::string::npos || text[close] != ']') {
            result += '[';
            continue;
        }
        for (; i <= close; ++i) {
            if (text[i] != ' ' && text[i] != '\n') {
                result += text[i];
                result += text[i] == ',' ? " " : "";
            }
        }
        i = close;
    }
    return result;
}

Json clocks_json(const Clocks& clocks) {
    Json hosts = Json::array();
    for (size_t i = 0; i < clocks.hosts.size(); ++i) {
        const HostClock& clock = clocks.hosts[i];
        Json stretches = Json::array();
        for (const ClockStretch& stretch : clock.stretches) {
            stretches.push_back({{"from_ns", stretch.from_ns},
                                 {"at_ns", stretch.at_ns},
                                 {"offset_ns", stretch.offset_ns},
                                 {"drift_ppm", stretch.drift * 1e6},
                                 {"bound_ns", stretch.bound_ns}});
        }
        hosts.push_back({{"host", clock.host},
                         {"aligned", clock.aligned},
                         {"reference", i == 0},
                         {"observations", clock.observations},
                         {"stretches", stretches}});
    }
    return {{"summary", clocks.summary()}, {"bound_ns", clocks.largest_bound_ns()}, {"hosts", hosts}};
}

Json testimony_json(const Testimony& said) {
    Json json{{"witness", said.witness}, {"file", said.file}, {"rank", said.rank}, {"says", said.text}};
    const auto add_known = [&](const char* name, const auto& value, bool known) {
        if (known) {
            json[name] = value;
        }
    };
    add_known("pid", said.pid, said.pid > 0);
    add_known("host", said.host, !said.host.empty());
    add_known("exit_status", said.exit_status, said.exit_status > 0);
    add_known("signal", said.signal, said.signal != 0);
    add_known("out_of_memory", said.out_of_memory, said.out_of_memory);
    add_known("message", said.message, !said.message.empty());
    add_known("time_ns", said.time_ns, said.time_ns != 0);
    add_known("order", said.order == EndOrder::kFirst ? "first" : "after others", said.order != EndOrder::kUnknown);
    return json;
}

std::string text_of(const Json& json) { return with_short_lists(json.dump(2)) + "\n"; }

}  // namespace

std::string layout_json_report(const Run& run) { return text_of(layout_json(run, nullptr)); }

std::string json_report(const Run& run, const Diagnosis& diagnosis) {
    Json json;
    json["schema"] = kJsonSchema;
    json["run"] = {{"id", run.id},
                   {"attempt", run.attempt},
                   {"world_size", run.world_size},
                   {"ranks", run.ranks},
                   {"missing_ranks", run.missing_ranks},
                   {"hosts", run.hosts}};
    if (run.layout != nullptr) {
        std::set<int> named;
        for (const Finding& finding : diagnosis.findings) {
            named.insert(finding.ranks.begin(), finding.ranks.end());
        }
        json["run"]["layout"] = layout_json(run, &named);
    }
    json["verdict"] = verdict_json(diagnosis);
    if (!diagnosis.cannot_tell.empty()) {
        json["cannot_tell"] = diagnosis.cannot_tell;
    }
    json["findings"] = Json::array();
    for (const Finding& finding : diagnosis.findings) {
        json["findings"].push_back(finding_json(run, finding));
    }
    json["waiting"] = Json::array();
    for (const Pending& pending : diagnosis.waiting) {
        json["waiting"].push_back(pending_json(run, pending));
    }
    json["warnings"] = Json::array();
    for (const Warning& warning : diagnosis.warnings) {
        json["warnings"].push_back({{"kind", warning.kind}, {"ranks", warning.ranks}, {"summary", warning.summary}});
    }
    if (!run.testimony.empty()) {
        json["witnesses"] = Json::array();
        for (const Testimony& said : run.testimony) {
            json["witnesses"].push_back(testimony_json(said));
        }
    }
    json["clocks"] = clocks_json(diagnosis.clocks);
    return text_of(json);
}

}  // namespace titan::analyzer
