#include <nlohmann/json.hpp>

#include "run.h"
#include "top/view.h"

namespace titan::tools {
namespace {

using nlohmann::ordered_json;

ordered_json rank_json(const RankRow& row) {
    ordered_json json{{"rank", row.rank},          {"pid", row.pid},
                      {"state", row.state},        {"heartbeat_age_ns", row.heartbeat_age_ns},
                      {"step", row.step},          {"step_age_ns", row.step_age_ns},
                      {"steps_per_s", nullptr},    {"span", row.span},
                      {"doing", row.doing},        {"doing_ns", row.doing_ns},
                      {"waits_for", row.waits_for}};
    if (row.steps_per_s >= 0) {
        json["steps_per_s"] = row.steps_per_s;
    }
    return json;
}

ordered_json call_json(const CallRow& row) {
    ordered_json json{
        {"what", row.what},       {"communicator", row.name},   {"communicator_id", row.id},
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
    ordered_json json{{"schema", 1}, {"realtime_ns", view.realtime_ns}, {"jobs", ordered_json::array()}};
    for (const JobView& job : view.jobs) {
        ordered_json one{{"run", job.run},
                         {"attempt", job.attempt},
                         {"world_size", job.world_size},
                         {"ranks", ordered_json::array()},
                         {"calls", ordered_json::array()}};
        for (const RankRow& row : job.ranks) {
            one["ranks"].push_back(rank_json(row));
        }
        for (const CallRow& row : job.calls) {
            one["calls"].push_back(call_json(row));
        }
        json["jobs"].push_back(std::move(one));
    }
    json["problems"] = view.problems;
    return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace titan::tools
