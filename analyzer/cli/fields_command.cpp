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
    R"(Each table is a kind of record, and what `titan-analyze show` lists with its option; docs/reference/records.md
has the same. python -m titantrace.export writes these tables as Parquet, SQLite or JSON Lines.

examples:
  titan-analyze fields
  titan-analyze fields --json | jq -r 'select(.table == "markers") | .key'

Exit status: 0, or 2 unusable arguments.)";

struct FieldsArguments {
    bool json = false;
    ListingOptions tables;
};

int run_fields(const FieldsArguments& arguments) {
    const std::vector<ListColumn> columns = {{"table", 11}, {"key", 12}, {"type", 14}, {"unit", 8}, {"meaning", 0}};
    check_sort({columns}, arguments.tables);
    Rows rows;
    for (const RecordField& field : record_fields()) {
        const RecordTable& table = record_tables()[static_cast<size_t>(field.kind)];
        if (arguments.json) {
            const Json row{{"table", table.name}, {"option", table.option}, {"key", field.key},
                           {"type", field.type},  {"unit", field.unit},     {"meaning", field.meaning}};
            print_text(row.dump() + "\n");
        } else {
            rows.push_back({table.name, field.key, field.type, field.unit, field.meaning});
        }
    }
    if (!arguments.json) {
        print_text(listing_text(columns, std::move(rows), arguments.tables));
    }
    return kExitHealthy;
}

}  // namespace

Command fields_command(CommandLine& app) {
    const auto arguments = std::make_shared<FieldsArguments>();
    CommandLine& command = app.command("fields", "Describe the fields of all records.", kFieldsFooter);
    add_table_options(command, arguments->tables,
                      command.flag("--json", arguments->json, "JSON Lines, one object per field"));
    return {&command, [arguments] { return run_fields(*arguments); }};
}

}  // namespace titan::analyzer
