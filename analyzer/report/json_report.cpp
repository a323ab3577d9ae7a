#include <algorithm>
#include <set>

#include "base/clock.h"
#include "diagnosis_document.h"
#include "document.h"
#include "evidence.h"
#include "host/json_value.h"
#include "host/mapped.h"
#include "host/words.h"
#include "report.h"
#include "report_parts.h"

namespace titan::analyzer {
namespace {

// The end of a process that is gone, as its own record tells it.
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

// The facts about each rank that the finding names, as values.
Json culprits_json(const RankIndex& processes, const Finding& finding) {
    Json culprits = Json::array();
    for (const int rank : finding.ranks) {
        const Process* const process = processes[rank];
        Json json{{"rank", rank}, {"status", process == nullptr ? "no record" : status_of(*process)}};
        if (process != nullptr) {
            json["pid"] = process->pid == 0 ? Json(nullptr) : Json(process->pid);
            json["host"] = process->host.empty() ? Json(nullptr) : Json(process->host);
            const auto stack = finding.stacks.find(rank);
            const bool seen = stack != finding.stacks.end() && !stack->second.empty();
            json["top_frame"] = seen ? Json(stack->second.front().text) : Json(nullptr);
        }
        culprits.push_back(json);
    }
    return culprits;
}

Json finding_json(const Run& run, const RankIndex& processes, const Finding& finding) {
    Json json;
    json["kind"] = name_of(finding.kind);
    json["ranks"] = finding.ranks;
    json["victims"] = finding.victims;
    json["communicator"] = communicator_json(run, finding.communicator);
    json["seq"] = finding.sequence == kNoSequence ? Json(nullptr) : Json(finding.sequence);
    json["op"] = finding.op.empty() ? Json(nullptr) : Json(finding.op);
    json["confidence"] = name_of(finding.confidence);
    json["since_ns"] = finding.since_known() ? Json(finding.since_ns) : Json(nullptr);
    json["waited_ns"] = finding.waited_ns > 0 ? Json(finding.waited_ns) : Json(nullptr);
    json["culprits"] = culprits_json(processes, finding);
    json["summary"] = finding.summary.text();
    json["evidence"] = texts_of(finding.evidence);
    if (!finding.would_confirm.empty()) {
        json["would_confirm"] = texts_of(finding.would_confirm);
    }
    if (!finding.cycle.empty()) {
        json["cycle"] = mapped(finding.cycle, [](const CycleStep& step) -> Json {
            return {{"rank", step.rank}, {"waits_in", step.waits_in.text()}, {"for", step.waits_for}};
        });
    }
    if (finding.replay) {
        json["replay"] = {{"options", finding.replay->options},
                          {"waiting", finding.replay->waiting},
                          {"still", finding.replay->still}};
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
        if (named.contains(process.rank) && process.has_ended()) {
            ends[std::to_string(process.rank)] = ended_json(process);
        }
    }
    if (!ends.empty()) {
        json["ends"] = ends;
    }
    json["hangs"] = finding.hangs;
    json["remedy"] = finding.remedy();
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
            {"hang_after_ns", pending.hang_after_ns == 0 ? Json(nullptr) : Json(pending.hang_after_ns)},
            {"summary", pending.summary.text()}};
}

Json verdict_json(const Diagnosis& diagnosis) {
    if (diagnosis.findings.empty()) {
        return nullptr;
    }
    const Finding& head = diagnosis.findings.front();
    return {{"kind", name_of(head.kind)},
            {"ranks", head.ranks},
            {"summary", head.summary.text()},
            {"confidence", name_of(head.confidence)}};
}

Json clocks_json(const Clocks& clocks) {
    Json hosts = Json::array();
    for (size_t i = 0; i < clocks.hosts.size(); ++i) {
        const HostClock& clock = clocks.hosts[i];
        Json stretches = mapped(clock.stretches, [](const ClockStretch& stretch) -> Json {
            return {{"from_ns", stretch.from_ns},
                    {"at_ns", stretch.at_ns},
                    {"offset_ns", stretch.offset_ns},
                    {"drift_ppm", stretch.drift * 1e6},
                    {"bound_ns", stretch.bound_ns}};
        });
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

std::string text_of(const Json& json) { return json.dump(2) + "\n"; }

std::string versioned_text_of(Json json) {
    json["schema"] = kJsonSchema;
    return text_of(json);
}

}  // namespace

std::string_view status_of(const Process& process) {
    if (process.ending.halt != Halt::kNone && !process.is_gone()) {
        return halt_name(process.ending.halt);
    }
    switch (process.liveness) {
        case Liveness::kAlive: return "alive";
        case Liveness::kExited: return "exited";
        case Liveness::kCrashed: return "crashed";
        case Liveness::kKilled: return "killed";
        case Liveness::kEnded: return "ended";
        case Liveness::kUnknown: break;
    }
    return "unknown";
}

std::string layout_json_report(const Run& run) { return versioned_text_of(layout_json(run, nullptr)); }
std::string config_json_report(const Run& run) { return versioned_text_of(config_json(run)); }

std::string json_report(const Run& run, const Diagnosis& diagnosis) {
    Json json;
    json["schema"] = kJsonSchema;
    json["run"] = {{"id", run.id},
                   {"attempt", run.attempt},
                   {"start", std::max(run.start, 1)},
                   {"starts", std::max(run.starts, 1)},
                   {"world_size", run.world_size},
                   {"ranks", run.ranks},
                   {"missing_ranks", run.missing_ranks},
                   {"hosts", run.hosts},
                   {"labels", Json::object()}};
    for (const auto& [key, value] : shared_labels(run)) {
        json["run"]["labels"][key] = value;
    }
    if (run.layout != nullptr) {
        std::set<int> named;
        for (const Finding& finding : diagnosis.findings) {
            named.insert(finding.ranks.begin(), finding.ranks.end());
        }
        json["run"]["layout"] = layout_json(run, &named);
    }
    json["status"] = name_of(outcome_of(diagnosis));
    json["one_line"] = one_line(run, diagnosis);
    json["verdict"] = verdict_json(diagnosis);
    if (!diagnosis.cannot_tell.empty()) {
        json["cannot_tell"] = diagnosis.cannot_tell;
    }
    json["findings"] = Json::array();
    const RankIndex processes(run);
    for (const Finding& finding : diagnosis.findings) {
        json["findings"].push_back(finding_json(run, processes, finding));
    }
    json["waiting"] = mapped(diagnosis.waiting, [&](const Pending& pending) { return pending_json(run, pending); });
    json["warnings"] = mapped(diagnosis.warnings, [](const Warning& warning) -> Json {
        return {{"kind", name_of(warning.kind)},
                {"meaning", row_of(warning.kind).meaning},
                {"ranks", warning.ranks},
                {"summary", warning.summary}};
    });
    if (!run.testimony.empty()) {
        json["witnesses"] = mapped(run.testimony, testimony_json);
    }
    json["clocks"] = clocks_json(diagnosis.clocks);
    json["report"] = document_json(run, diagnosis_document(run, diagnosis));
    return text_of(json);
}

}  // namespace titan::analyzer
