// Writers of a diagnosis. They see findings and the run's outline, and decide nothing.
#pragma once

#include <set>
#include <string>

#include "diagnosis_document.h"
#include "finding.h"
#include "host/json_value.h"
#include "run.h"

namespace titan::analyzer {

std::string layout_report(const Run& run, const TextStyle& style);
std::string layout_json_report(const Run& run);
// Settings and versions of all ranks: what differs, then what is the same.
std::string config_report(const Run& run, const TextStyle& style);
std::string config_json_report(const Run& run);
// {"dims": [...], "ranks": {"5": {...}}}. `named`: only these ranks; null: all, all communicators with their role, and
// all processes. Two lists go by rank in the communicator, with null where nothing is known: `all_ranks`, also of
// members without a record, and `issued`, how many collectives each has called; `ranks` are those on record.
Json layout_json(const Run& run, const std::set<int>* named);

// {"settings": [{"name": ..., "value": null where it is not set, "ranks": [...]}, ...]}, by name.
Json config_json(const Run& run);
std::string json_report(const Run& run, const Diagnosis& diagnosis);

// A diagnosis in one line, for a chat or a log:
// "run job-17 attempt 0: rank_not_arrived (certain): rank 3 ... is in step at train.py:142; on node-0 (pid 4711); since
// 2026-11-22 08:27:56 +01:00; and 2 more findings". Without the end of a line, and however long the names: short enough
// for one message.
std::string one_line(const Run& run, const Diagnosis& diagnosis);
std::string line_without_run(const Run& run, const Diagnosis& diagnosis);

}  // namespace titan::analyzer
