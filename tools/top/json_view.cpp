
#include "host/json_value.h"
#include "run.h"
#include "top/view.h"

namespace titan::tools {
namespace {

Json values_json(const std::vector<NamedValue>& values) {
    Json json = Json::object();
    for (const NamedValue& one : values) {
        json[one.name] = one.value;
    }
    return json;
}

Json rank_json(const RankRow& row) {
    Json json{{"rank", row.rank},
              {"pid", row.pid},
              {"state", row.state},
              {"heartbeat_age_ns", row.heartbeat_age_ns},
              {"step", row.step},
              {"step_age_ns", row.step_age_ns},
              {"steps_per_s", nullptr},
              {"span", row.span},
              {"doing", row.doing},
              {"doing_ns", row.doing_ns},
              {"waits_for", row.waits_for},
              {"waits_ns", row.waits_ns},
              {"gpu", row.gpu},
              {"gpu_throttled", row.is_throttled},
              {"metric_not_finite", row.odd_metric.empty() ? Json(nullptr) : Json(row.odd_metric)},
              {"span_ns", values_json(row.spans_ns)},
              {"metrics", values_json(row.metrics)}};
    if (row.steps_per_s >= 0) {
        json["steps_per_s"] = row.steps_per_s;
    }
    return json;
}

Json conclusion_json(const Conclusion& conclusion) {
    return {{"alert", name_of(conclusion.alert)}, {"text", conclusion.text}, {"ranks", conclusion.ranks}};
}

Json call_json(const CallRow& row) {
    Json json{{"what", row.what},       {"communicator", row.name},   {"communicator_id", row.id},
              {"size", row.size},       {"operation", row.operation}, {"sequence", nullptr},
              {"pending_ns", nullptr},  {"arrived", row.arrived},     {"queued", row.queued},
              {"missing", row.missing}, {"elsewhere", row.elsewhere}, {"progress_unknown", row.progress_unknown}};
    if (row.sequence != analyzer::kNoSequence) {
        json["sequence"] = row.sequence;
    }
    if (row.pending_ns >= 0) {
        json["pending_ns"] = row.pending_ns;
    }
    return json;
}

}  // namespace

std::string view_json(const NodeView& view) {
    Json json{{"schema", 1}, {"realtime_ns", view.realtime_ns}, {"jobs", Json::array()}};
    for (const JobView& job : view.jobs) {
        Json one{{"run", job.run},
                 {"attempt", job.attempt},
                 {"world_size", job.world_size},
                 {"recorded_ns", job.recorded_ns == 0 ? Json(nullptr) : Json(job.recorded_ns)},
                 {"ended", job.has_ended},
                 {"host", job.host},
                 {"conclusion", conclusion_json(job.conclusion)},
                 {"observed", job.observed},
                 {"ranks", Json::array()},
                 {"calls", Json::array()}};
        for (const RankRow& row : job.ranks) {
            one["ranks"].push_back(rank_json(row));
        }
        for (const CallRow& row : job.calls) {
            one["calls"].push_back(call_json(row));
        }
        json["jobs"].push_back(std::move(one));
    }
    json["problems"] = view.problems;
    json["notes"] = view.notes;
    return json.dump() + "\n";
}

}  // namespace titan::tools
