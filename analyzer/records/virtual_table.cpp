#include "virtual_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <exception>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "rows.h"

namespace titan::analyzer {

void QueryBudget::check_time() const {
    if (is_over()) {
        throw LimitReached(time_text());
    }
}

std::string QueryBudget::time_text() const {
    return fmt::format("stopped after {:g} s: ask for less, or raise --limit-s", most_s_);
}

std::string QueryBudget::memory_text() const {
    return fmt::format("stopped at {} MiB of memory: ask for fewer ranks, steps or columns, or raise --limit-mib",
                       most_bytes_ >> 20);
}

namespace {

constexpr int kNoRank = INT32_MIN;
// A join comes back for each row of what it is joined with; who reads a table twice in one query does not.
constexpr uint64_t kVisitsOfAJoin = 3;

template <typename Rows>
class FillRows : public RowSink {
  public:
    FillRows(Rows& rows, const std::vector<Condition>& conditions, const QueryBudget& budget, uint64_t most_bytes)
        : rows_(rows), conditions_(conditions), budget_(budget), most_bytes_(most_bytes) {}

    void add(const SqlRow& cell) override {
        rows_.add(cell, conditions_);
        if (++seen_ % 1024 == 0) {
            budget_.check_time();
            if (rows_.bytes() > most_bytes_) {
                throw LimitReached(budget_.memory_text());
            }
        }
    }

  private:
    Rows& rows_;
    const std::vector<Condition>& conditions_;
    const QueryBudget& budget_;
    uint64_t most_bytes_;
    uint64_t seen_ = 0;
};

std::vector<Condition> equal_ones(const std::vector<Condition>& conditions) {
    std::vector<Condition> equal;
    std::copy_if(conditions.begin(), conditions.end(), std::back_inserter(equal),
                 [](const Condition& condition) { return condition.is_equal(); });
    return equal;
}

// What a query wants of a table.
struct Wanted {
    uint64_t columns = 0;
    int rank = kNoRank;
    std::vector<Condition> conditions{};

    bool has_block(const SqlTable& table, size_t block) const {
        const auto of_block = rank == kNoRank ? std::nullopt : table.rank_of(block);
        return !of_block || *of_block == rank;
    }
};

// Those that the conditions leave.
RowSteps steps_of(const SqlTable& table, const std::vector<Condition>& conditions) {
    std::pair<int64_t, int64_t> steps(INT64_MIN, INT64_MAX);
    for (const Condition& condition : conditions) {
        const Cell& value = condition.value;
        if (table.columns()[condition.column].name != "step" || value.kind != Cell::Kind::kInteger) {
            continue;
        }
        if (condition.is_equal() || condition.op == SQLITE_INDEX_CONSTRAINT_GE ||
            condition.op == SQLITE_INDEX_CONSTRAINT_GT) {
            steps.first = std::max(steps.first, value.integer);
        }
        if (condition.is_equal() || condition.op == SQLITE_INDEX_CONSTRAINT_LE ||
            condition.op == SQLITE_INDEX_CONSTRAINT_LT) {
            steps.second = std::min(steps.second, value.integer);
        }
    }
    return steps == std::pair(INT64_MIN, INT64_MAX) ? std::nullopt : RowSteps(steps);
}

// All of the rows that are wanted and meet the conditions.
template <typename Rows>
void read_all(const SqlTable& table, const Wanted& wanted, const std::vector<Condition>& conditions,
              const QueryBudget& budget, uint64_t most_bytes, Rows& rows) {
    FillRows sink(rows, conditions, budget, most_bytes);
    const RowSteps steps = steps_of(table, conditions);
    for (size_t block = 0; block < table.blocks(); ++block) {
        if (wanted.has_block(table, block)) {
            budget.check_time();
            table.read(block, steps, sink);
        }
    }
}

// Rows that a query comes back to, all that there are or those of a rank; found by the columns that it asks for.
struct Kept {
    SqlRows rows;
    std::unordered_map<uint64_t, std::vector<uint32_t>> by_hash{};
};

struct Found {
    std::shared_ptr<const Kept> in;
    const std::vector<uint32_t>* chosen = nullptr;
};

class KeptRows {
  public:
    // Nothing before the query has come back for them, or where they would take too much memory.
    std::optional<Found> find(const SqlTable& table, const Wanted& wanted, const QueryBudget& budget) {
        if (query_ != budget.query()) {
            *this = {};
            query_ = budget.query();
        }
        const std::vector<Condition> equal = equal_ones(wanted.conditions);
        std::vector<size_t> columns;
        std::transform(equal.begin(), equal.end(), std::back_inserter(columns),
                       [](const Condition& condition) { return condition.column; });
        const Key key{wanted.columns, wanted.rank, columns};
        if (++visits_[key] < kVisitsOfAJoin || too_much_) {
            return std::nullopt;
        }
        auto known = kept_.find(key);
        if (known == kept_.end()) {
            auto fresh = read(table, wanted, equal, budget);
            if (fresh == nullptr) {
                return std::nullopt;
            }
            known = kept_.emplace(key, std::move(fresh)).first;
        }
        uint64_t hash = kHashOfNothing;
        for (const Condition& condition : equal) {
            hash = mix_hash(hash, condition.hash());
        }
        static const std::vector<uint32_t> kNone;
        const auto rows = known->second->by_hash.find(hash);
        return Found{known->second, rows == known->second->by_hash.end() ? &kNone : &rows->second};
    }

  private:
    using Key = std::tuple<uint64_t, int, std::vector<size_t>>;

    std::shared_ptr<Kept> read(const SqlTable& table, const Wanted& wanted, const std::vector<Condition>& equal,
                               const QueryBudget& budget) {
        const uint64_t most_bytes = budget.most_bytes() / 4;
        std::shared_ptr<Kept> fresh;
        try {
            fresh = std::make_shared<Kept>(Kept{SqlRows(table.columns(), wanted.columns)});
            read_all(table, wanted, {}, budget, most_bytes, fresh->rows);
        } catch (const LimitReached&) {
            budget.check_time();
            too_much_ = true;
            return nullptr;
        }
        for (size_t row = 0; row < fresh->rows.count(); ++row) {
            if (const auto hash = fresh->rows.hash(row, equal)) {
                fresh->by_hash[*hash].push_back(static_cast<uint32_t>(row));
            }
        }
        bytes_ += fresh->rows.bytes();
        if (bytes_ > most_bytes) {
            kept_.clear();
            bytes_ = fresh->rows.bytes();
        }
        return fresh;
    }

    uint64_t query_ = 0;
    std::map<Key, uint64_t> visits_;
    std::map<Key, std::shared_ptr<Kept>> kept_;  // with those who go through them
    uint64_t bytes_ = 0;
    bool too_much_ = false;
};

struct VirtualTable : sqlite3_vtab {
    VirtualTable(const SqlTable& shown, const QueryBudget& allowed) : sqlite3_vtab{}, table(shown), budget(allowed) {}
    const SqlTable& table;
    const QueryBudget& budget;
    KeptRows kept;
};

// What xBestIndex tells xFilter, as text: "columns column descending ... column op ..."; the values come with xFilter.
struct Plan {
    uint64_t columns = 0;
    std::vector<OrderColumn> order{};
    std::vector<std::pair<size_t, int>> conditions{};

    static Plan of(std::string_view text, size_t ordered) {
        std::vector<uint64_t> numbers;
        for (const char* at = text.data(); at < text.data() + text.size();) {
            at = std::from_chars(at, text.data() + text.size(), numbers.emplace_back()).ptr + 1;
        }
        Plan plan{numbers.at(0)};
        for (size_t i = 1; i + 1 < numbers.size(); i += 2) {
            if (plan.order.size() < ordered) {
                plan.order.push_back({numbers[i], numbers[i + 1] != 0});
            } else {
                plan.conditions.emplace_back(numbers[i], static_cast<int>(numbers[i + 1]));
            }
        }
        return plan;
    }
};

struct Cursor : sqlite3_vtab_cursor {
    explicit Cursor(VirtualTable& from) : sqlite3_vtab_cursor{}, from_(from), table_(from.table) {}

    void start(const Plan& plan, sqlite3_value** values) {
        rows_ = nullptr;
        chosen_ = nullptr;
        grouped_ = nullptr;
        at_ = number_ = next_block_ = 0;
        wanted_ = {plan.columns};
        at_end_ = false;
        for (size_t i = 0; i < plan.conditions.size(); ++i) {
            add_condition(plan.conditions[i].first, plan.conditions[i].second, values[i]);
        }
        if (at_end_) {
            return;
        }
        if (!plan.order.empty()) {
            read_grouped(plan.order);
        } else if (const auto found = from_.kept.find(table_, wanted_, from_.budget)) {
            kept_ = found->in;
            rows_ = &kept_->rows;
            chosen_ = found->chosen;
            at_end_ = chosen_->empty();
        } else {
            open_next_block();
        }
    }

    void advance() {
        ++number_;
        ++at_;
        if (grouped_ != nullptr) {
            at_end_ = !grouped_->next();
        } else if (chosen_ != nullptr) {
            at_end_ = at_ >= chosen_->size();
        } else if (at_ >= rows_->count()) {
            open_next_block();
        }
    }

    bool at_end() const { return at_end_; }
    int64_t number() const { return static_cast<int64_t>(number_); }
    const Cell& cell(size_t column) const {
        return grouped_ != nullptr ? grouped_->at(column)
                                   : rows_->at(chosen_ != nullptr ? (*chosen_)[at_] : at_, column);
    }
    const std::string& text(const Cell& cell) const {
        return grouped_ != nullptr ? grouped_->text(cell) : rows_->text(cell);
    }

  private:
    // A value of another type than the column is left to SQLite, which knows what compares with what.
    void add_condition(size_t column, int op, sqlite3_value* value) {
        Condition condition{column, op};
        Cell& cell = condition.value;
        switch (sqlite3_value_type(value)) {
            case SQLITE_INTEGER:
                cell.kind = Cell::Kind::kInteger;
                cell.integer = sqlite3_value_int64(value);
                break;
            case SQLITE_FLOAT:
                cell.kind = Cell::Kind::kReal;
                cell.real = sqlite3_value_double(value);
                break;
            case SQLITE_TEXT:
                cell.kind = Cell::Kind::kText;
                condition.text.assign(reinterpret_cast<const char*>(sqlite3_value_text(value)),
                                      static_cast<size_t>(sqlite3_value_bytes(value)));
                break;
            case SQLITE_NULL: at_end_ = true; return;
            default: return;
        }
        const SqlColumn& wanted = table_.columns()[column];
        if (wanted.is_text() != (cell.kind == Cell::Kind::kText)) {
            return;
        }
        if (condition.is_equal() && wanted.name == "rank" && cell.kind == Cell::Kind::kInteger) {
            wanted_.rank = static_cast<int>(cell.integer);
        }
        wanted_.conditions.push_back(std::move(condition));
    }

    void open_next_block() {
        at_ = 0;
        while (next_block_ < table_.blocks()) {
            const size_t block = next_block_++;
            if (!wanted_.has_block(table_, block)) {
                continue;
            }
            from_.budget.check_time();
            block_ = std::make_unique<SqlRows>(table_.columns(), wanted_.columns);
            FillRows sink(*block_, wanted_.conditions, from_.budget, from_.budget.most_bytes());
            table_.read(block, steps_of(table_, wanted_.conditions), sink);
            if (block_->count() != 0) {
                rows_ = block_.get();
                return;
            }
        }
        at_end_ = true;
    }

    // SQLite would sort what it groups row by row, which takes several times as long and as much memory.
    void read_grouped(const std::vector<OrderColumn>& columns) {
        grouped_ = std::make_unique<GroupedRows>(table_.columns(), wanted_.columns, columns);
        read_all(table_, wanted_, wanted_.conditions, from_.budget, from_.budget.most_bytes(), *grouped_);
        at_end_ = !grouped_->rewind();
    }

    VirtualTable& from_;
    const SqlTable& table_;
    Wanted wanted_;
    size_t next_block_ = 0;
    std::unique_ptr<SqlRows> block_;
    std::shared_ptr<const Kept> kept_;
    const SqlRows* rows_ = nullptr;
    std::unique_ptr<GroupedRows> grouped_;
    const std::vector<uint32_t>* chosen_ = nullptr;  // of kept rows
    size_t at_ = 0;
    size_t number_ = 0;
    bool at_end_ = true;
};

// No exception may pass through SQLite.
template <typename Body>
int answer(sqlite3_vtab& table, const Body& body) {
    try {
        body();
        return SQLITE_OK;
    } catch (const std::bad_alloc&) {
        return SQLITE_NOMEM;
    } catch (const std::exception& error) {
        sqlite3_free(table.zErrMsg);
        table.zErrMsg = sqlite3_mprintf("%s", error.what());
        return SQLITE_ERROR;
    }
}

struct Module {
    const SqlTable& table;
    const QueryBudget& budget;
};

std::string declaration(const SqlTable& table) {
    std::string columns;
    for (const SqlColumn& column : table.columns()) {
        columns += fmt::format("{}\"{}\" {}", columns.empty() ? "" : ", ", column.name,
                               column.is_text()   ? "TEXT"
                               : column.is_real() ? "REAL"
                                                  : "INTEGER");
    }
    return fmt::format("CREATE TABLE x({})", columns);
}

int connect(sqlite3* database, void* data, int, const char* const*, sqlite3_vtab** made, char**) {
    const auto& [table, budget] = *static_cast<const Module*>(data);
    sqlite3_vtab_config(database, SQLITE_VTAB_INNOCUOUS);
    const int status = sqlite3_declare_vtab(database, declaration(table).c_str());
    if (status == SQLITE_OK) {
        *made = new (std::nothrow) VirtualTable(table, budget);
    }
    return status != SQLITE_OK ? status : *made == nullptr ? SQLITE_NOMEM : SQLITE_OK;
}

int disconnect(sqlite3_vtab* table) {
    delete static_cast<VirtualTable*>(table);
    return SQLITE_OK;
}

bool is_comparison(int op) {
    return op == SQLITE_INDEX_CONSTRAINT_EQ || op == SQLITE_INDEX_CONSTRAINT_LT || op == SQLITE_INDEX_CONSTRAINT_LE ||
           op == SQLITE_INDEX_CONSTRAINT_GT || op == SQLITE_INDEX_CONSTRAINT_GE;
}

// Of GROUP BY and DISTINCT. For these SQLite 3.40 takes it for granted that an ORDER BY of the same columns is met,
// too, though it asks for groups alone: they come in order.
bool is_for_groups([[maybe_unused]] sqlite3_index_info* info) {
#if SQLITE_VERSION_NUMBER >= 3038000
    const int kind = sqlite3_vtab_distinct(info);
    return (kind == 1 || kind == 2) && std::all_of(info->aOrderBy, info->aOrderBy + info->nOrderBy,
                                                   [](const auto& term) { return term.iColumn >= 0; });
#else
    return false;
#endif
}

// The fewer rows, the rather SQLite goes through the table in the inner loop of a join.
int plan(sqlite3_vtab* table, sqlite3_index_info* info) {
    const auto& columns = static_cast<VirtualTable*>(table)->table.columns();
    std::string text;
    uint64_t used = info->colUsed;
    double rows = 1e7;
    int values = 0;
    if (info->nOrderBy > 0 && is_for_groups(info)) {
        info->idxNum = info->nOrderBy;
        info->orderByConsumed = 1;
        for (int i = 0; i < info->nOrderBy; ++i) {
            const auto column = static_cast<size_t>(info->aOrderBy[i].iColumn);
            used |= SqlRows::bit_of(column);
            text += fmt::format(" {} {}", column, info->aOrderBy[i].desc);
        }
    }
    for (int i = 0; i < info->nConstraint; ++i) {
        const auto& condition = info->aConstraint[i];
        const bool binary = std::string_view(sqlite3_vtab_collation(info, i)) == "BINARY";
        if (condition.usable == 0 || condition.iColumn < 0 || !is_comparison(condition.op) || !binary) {
            continue;
        }
        const auto column = static_cast<size_t>(condition.iColumn);
        used |= SqlRows::bit_of(column);
        text += fmt::format(" {} {}", column, condition.op);
        info->aConstraintUsage[i].argvIndex = ++values;
        rows /= condition.op != SQLITE_INDEX_CONSTRAINT_EQ ? 4 : columns[column].name == "rank" ? 1000 : 100;
    }
    info->idxStr = sqlite3_mprintf("%s", fmt::format("{}{}", used, text).c_str());
    info->needToFreeIdxStr = 1;
    info->estimatedRows = static_cast<int64_t>(std::max(rows, 1.0));
    info->estimatedCost = std::max(rows, 1.0) * 10;
    return info->idxStr == nullptr ? SQLITE_NOMEM : SQLITE_OK;
}

int open(sqlite3_vtab* table, sqlite3_vtab_cursor** made) {
    *made = new (std::nothrow) Cursor(*static_cast<VirtualTable*>(table));
    return *made == nullptr ? SQLITE_NOMEM : SQLITE_OK;
}

int close(sqlite3_vtab_cursor* cursor) {
    delete static_cast<Cursor*>(cursor);
    return SQLITE_OK;
}

int filter(sqlite3_vtab_cursor* cursor, int ordered, const char* planned, int, sqlite3_value** values) {
    return answer(*cursor->pVtab, [&] {
        static_cast<Cursor*>(cursor)->start(Plan::of(planned, static_cast<size_t>(ordered)), values);
    });
}

int next(sqlite3_vtab_cursor* cursor) {
    return answer(*cursor->pVtab, [&] { static_cast<Cursor*>(cursor)->advance(); });
}

int is_at_end(sqlite3_vtab_cursor* cursor) { return static_cast<Cursor*>(cursor)->at_end() ? 1 : 0; }

int tell(sqlite3_vtab_cursor* cursor, sqlite3_context* to, int column) {
    const Cursor& at = *static_cast<Cursor*>(cursor);
    const Cell& cell = at.cell(static_cast<size_t>(column));
    switch (cell.kind) {
        case Cell::Kind::kNull: sqlite3_result_null(to); break;
        case Cell::Kind::kInteger: sqlite3_result_int64(to, cell.integer); break;
        case Cell::Kind::kReal: sqlite3_result_double(to, cell.real); break;
        case Cell::Kind::kText: {
            const std::string& text = at.text(cell);
            sqlite3_result_text64(to, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
            break;
        }
    }
    return SQLITE_OK;
}

int tell_number(sqlite3_vtab_cursor* cursor, sqlite3_int64* number) {
    *number = static_cast<Cursor*>(cursor)->number();
    return SQLITE_OK;
}

// Without xCreate the table is there under the name of its module, in every database.
constexpr sqlite3_module kModule = [] {
    sqlite3_module module{};
    module.xConnect = connect;
    module.xBestIndex = plan;
    module.xDisconnect = disconnect;
    module.xOpen = open;
    module.xClose = close;
    module.xFilter = filter;
    module.xNext = next;
    module.xEof = is_at_end;
    module.xColumn = tell;
    module.xRowid = tell_number;
    return module;
}();

}  // namespace

void add_virtual_table(sqlite3* database, const SqlTable& table, const QueryBudget& budget) {
    sqlite3_create_module_v2(database, table.name().c_str(), &kModule, new Module{table, budget},
                             [](void* module) { delete static_cast<Module*>(module); });
}

}  // namespace titan::analyzer
