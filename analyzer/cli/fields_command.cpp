// titan-analyze fields: what `show --json` lists, field by field.
#include <memory>
#include <vector>

#include "commands.h"
#include "host/json_value.h"
#include "host/listing.h"
#include "record_fields.h"

namespace titan::analyzer {
namespace {

constexpr const char* kFieldsFooter =
    R"(Each table is a kind of record, and what `titan-analyze show` lists with its option; docs/records.md has the
same. python -m titantrace.export writes these tables as Parquet, SQLite or JSON Lines.

examples:
  titan-analyze fields
  titan-analyze fields --json | jq -r 'select(.table == "markers") | .key'

Exit status: 0, or 2 unusable arguments.)";

const RecordTable& table_of(RecordKind kind) {
    for (const RecordTable& table : record_tables()) {
        if (table.kind == kind) {
            return table;
        }
    }
    return record_tables().front();
}

int run_fields(bool json) {
    std::vector<std::vector<std::string>> rows;
    for (const RecordField& field : record_fields()) {
        const RecordTable& table = table_of(field.kind);
        if (json) {
            const Json row{{"table", table.name}, {"option", table.option}, {"key", field.key},
                           {"type", field.type},  {"unit", field.unit},     {"meaning", field.meaning}};
            print_text(row.dump() + "\n");
        } else {
            rows.push_back({table.name, field.key, field.type, field.unit, field.meaning});
        }
    }
    if (!json) {
        print_text(
            listing_text({{"table", 11}, {"key", 12}, {"type", 14}, {"unit", 8}, {"meaning", 0}}, std::move(rows)));
    }
    return kExitHealthy;
}

}  // namespace

Command fields_command(CommandLine& app) {
    const auto json = std::make_shared<bool>(false);
    CommandLine& command = app.command("fields", "Describe the fields of all records.", kFieldsFooter);
    command.flag("--json", *json, "JSON Lines, one object per field");
    return {&command, [json] { return run_fields(*json); }};
}

}  // namespace titan::analyzer
