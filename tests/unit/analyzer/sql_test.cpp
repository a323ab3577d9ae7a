// Questions in SQL: what a table tells, that conditions and joins that it answers by itself change nothing, and what a
// query may not do.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "database.h"
#include "load_run.h"
#include "ring_builder.h"
#include "temporary_directory.h"

using namespace titan;
using namespace titan::analyzer;

namespace {

constexpr int kRanks = 3;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Each rank makes so many calls of two operations and tells a metric in each of ten steps.
void write_dumps(const std::string& directory, uint64_t calls) {
    for (int rank = 0; rank < kRanks; ++rank) {
        synth::RingSpec spec;
        spec.rank = rank;
        spec.world_size = kRanks;
        spec.markers = 64;
        spec.collectives = std::bit_ceil(calls);
        synth::RingBuilder ring(spec);
        const uint32_t world = ring.add_communicator(0xabc, kRanks, rank, "world");
        const uint32_t loss = ring.text("loss");
        for (uint64_t i = 0; i < calls; ++i) {
            format::CollectiveEntry& call =
                ring.add_call(world, i % 4 == 0 ? format::OpKind::kAllGather : format::OpKind::kAllReduce);
            call.sequence = i;
            call.step = static_cast<int64_t>(i / 4);
            call.count = i;
            call.entered_ticks = synth::kEpochTicks + i * 1000 + static_cast<uint64_t>(rank);
            call.returned_ticks = i % 7 == 0 ? 0 : call.entered_ticks + 100 + i;
        }
        for (uint64_t step = 0; step < 10; ++step) {
            format::MarkerEntry& begin = ring.add_marker(format::MarkerKind::kStep);
            begin.value = step;
            begin.step = static_cast<int64_t>(step);
            begin.ticks = synth::kEpochTicks + step * 4000;
            format::MarkerEntry& metric = ring.add_marker(format::MarkerKind::kMetric);
            metric.name = loss;
            metric.step = static_cast<int64_t>(step);
            metric.ticks = synth::kEpochTicks + step * 4000 + 10;
            metric.value = std::bit_cast<uint64_t>(rank == 1 && step == 4   ? kNan
                                                   : rank == 2 && step == 5 ? HUGE_VAL
                                                                            : 1.5 * rank + static_cast<double>(step));
        }
        synth::write_file(fmt::format("{}/synth/0/rank{:05}.0.titan", directory, rank),
                          synth::make_dump(ring, synth::dump_meta(synth::kEpochTicks + 100'000, "signal", true)));
    }
}

Run run_in(const std::string& directory, bool records_alone) {
    LoadOptions load;
    load.paths = {directory};
    load.with_journals = true;
    load.records_alone = records_alone;
    auto run = load_run(load);
    REQUIRE(run);
    return std::move(*run);
}

struct Answer {
    std::string rows;  // as text: fields behind each other, lines
    std::string wrong;
};

class Asked {
  public:
    explicit Asked(const QueryLimits& limits = {}, uint64_t calls = 40) : database_(loader(), limits) {
        write_dumps(place_.path, calls);
    }

    Answer ask(const std::string& sql) {
        Answer answer;
        answer.wrong = database_.query(sql, {[](const std::vector<std::string>&) {},
                                             [&answer](const std::vector<Json>& row) {
                                                 for (const Json& value : row) {
                                                     answer.rows += value.dump() + " ";
                                                 }
                                                 answer.rows += "\n";
                                             }});
        return answer;
    }
    std::string rows(const std::string& sql) {
        const Answer answer = ask(sql);
        CHECK_MESSAGE(answer.wrong == "", sql);
        return answer.rows;
    }
    std::string wrong(const std::string& sql) { return ask(sql).wrong; }
    Database& database() { return database_; }
    const std::string& loaded() const { return loaded_; }  // "records, all, "

  private:
    LoadForTables loader() {
        return [this](bool records_alone) {
            loaded_ += records_alone ? "records, " : "all, ";
            return run_in(place_.path, records_alone);
        };
    }

    test::TemporaryDirectory place_;
    std::string loaded_;
    Database database_;
};

}  // namespace

TEST_CASE("records are rows of tables") {
    Asked asked;
    CHECK(asked.rows("SELECT count(*), count(DISTINCT rank), min(seq), max(seq) FROM calls") == "120 3 0 39 \n");
    CHECK(asked.rows("SELECT op, count(*), sum(count) FROM calls GROUP BY op ORDER BY op") ==
          "\"all_gather\" 30 540 \n\"all_reduce\" 90 1800 \n");
    CHECK(asked.rows("SELECT rank FROM ranks ORDER BY rank DESC") == "2 \n1 \n0 \n");
    CHECK(asked.rows("SELECT name, size FROM communicators") == "\"world\" 3 \n");
    CHECK(asked.rows("SELECT comm_rank, rank FROM members") == "0 0 \n1 1 \n2 2 \n");
    CHECK(asked.rows("SELECT count(*) FROM markers WHERE marker = 'step'") == "30 \n");
    CHECK(asked.rows("SELECT kind, count(*) FROM parts GROUP BY kind ORDER BY kind") ==
          "\"host\" 102 \n\"metric\" 30 \n\"step\" 27 \n");
    CHECK(asked.rows("SELECT host_ns, gpu_ns FROM calls WHERE rank = 0 AND seq IN (0, 1)") ==
          "null null \n101 null \n");
    CHECK(asked.rows("SELECT 41 + 1, 'a'") == "42 \"a\" \n");
}

TEST_CASE("a run is loaded when a statement needs it, and its histories when one needs them") {
    Asked asked;
    CHECK(!asked.database().help().empty());
    CHECK(asked.wrong("SELECT none FROM calls") != "");
    CHECK(asked.loaded() == "");
    const std::string calls = "SELECT * FROM calls JOIN members USING (rank) JOIN communicators USING (communicator)";
    const std::string alone = asked.rows(calls);
    CHECK(asked.rows("SELECT rank FROM arrivals, markers LIMIT 1") != "");
    CHECK(asked.loaded() == "records, ");
    CHECK(asked.rows("SELECT 1 FROM steps, calls LIMIT 1") == "1 \n");
    CHECK(asked.rows("SELECT count(*) FROM ranks") == "3 \n");
    CHECK(asked.rows(calls) == alone);
    CHECK(asked.loaded() == "records, all, ");
}

TEST_CASE("a number that is none is null, an infinite one is not") {
    Asked asked;
    CHECK(asked.rows("SELECT rank, step FROM markers WHERE marker = 'metric' AND value IS NULL") == "1 4 \n");
    CHECK(asked.rows("SELECT rank, step FROM markers WHERE marker = 'metric' AND value > 1e300") == "2 5 \n");
    CHECK(asked.rows("SELECT value, ranks, not_finite FROM step_metrics WHERE step = 4") == "5.5 3 \"1\" \n");
}

TEST_CASE("functions for questions about jobs") {
    Asked asked;
    CHECK(asked.rows("SELECT arg_max(rank, entered_realtime_ns), arg_min(rank, entered_realtime_ns), "
                     "rank_ranges(rank) FROM calls WHERE seq = 7") == "2 0 \"0-2\" \n");
    CHECK(asked.rows("SELECT quantile(seq, 0.5) BETWEEN 18 AND 21, round(std(seq), 2) FROM calls") == "1 11.54 \n");
    CHECK(asked.rows("SELECT duration(1200000), duration(-1200000), duration(NULL)") ==
          "\"1.2 ms\" \"-1.2 ms\" null \n");
    CHECK(asked.rows("SELECT quantile(seq, 0.5), std(seq), arg_max(seq, seq), rank_ranges(rank) FROM calls "
                     "WHERE seq > 100") == "null null null null \n");
    CHECK(asked.rows("SELECT last_rank, spread_ns, ranks FROM arrivals WHERE seq = 3") == "2 2 3 \n");
}

// `+column` hides a column from the table: SQLite tests the condition alone.
TEST_CASE("conditions that a table tests by itself change nothing") {
    Asked asked;
    std::mt19937 random(7);  // NOLINT: the same each time
    const std::vector<std::string> columns = {"rank",
                                              "seq",
                                              "op",
                                              "count",
                                              "result",
                                              "step",
                                              "peer",
                                              "gpu_ns",
                                              "host_ns",
                                              "entered_realtime_ns",
                                              "stack",
                                              "state",
                                              "communicator_name"};
    std::vector<std::string> values = {
        "0", "1", "2.0", "1.5", "-1", "7", "39", "'all_reduce'", "'1'", "''", "NULL", "9007199254740993", "'world'"};
    const std::string moment = asked.rows("SELECT entered_realtime_ns FROM calls WHERE rank = 1 AND seq = 12");
    values.push_back(moment.substr(0, moment.find(' ')));
    const std::vector<std::string> operators = {"=", "<", "<=", ">", ">=", "<>", "IS"};
    const auto pick = [&random](const std::vector<std::string>& from) { return from[random() % from.size()]; };
    int found = 0;
    for (int i = 0; i < 400; ++i) {
        std::string pushed, hidden;
        for (int n = 0; n < 2; ++n) {
            const std::string column = pick(columns), rest = " " + pick(operators) + " " + pick(values);
            const char* join = n == 0 ? "" : " AND ";
            pushed += join + column + rest;
            hidden += join + ("+" + column) + rest;
        }
        const std::string what = "SELECT rank, seq, op FROM calls WHERE ";
        // A unary plus takes away the column's type, by which SQLite would turn '1' into 1.
        if (pushed.find("'1'") != std::string::npos || pushed.find("''") != std::string::npos) {
            CHECK(asked.wrong(what + pushed) == "");
            continue;
        }
        const std::string rows = asked.rows(what + pushed);
        CHECK_MESSAGE(rows == asked.rows(what + hidden), pushed);
        found += rows.empty() ? 0 : 1;
    }
    CHECK(found > 40);
}

TEST_CASE("a join finds in memory what it would find by reading again") {
    Asked asked;
    const std::string joined = asked.rows(
        "SELECT a.rank, b.rank, a.seq FROM calls a JOIN calls b ON b.seq = a.seq AND b.op = a.op AND b.rank > a.rank "
        "ORDER BY 1, 2, 3");
    CHECK(std::count(joined.begin(), joined.end(), '\n') == 120);
    CHECK(joined == asked.rows("WITH b AS MATERIALIZED (SELECT * FROM calls) SELECT a.rank, b.rank, a.seq FROM calls a "
                               "JOIN b ON +b.seq = a.seq AND +b.op = a.op AND +b.rank > a.rank ORDER BY 1, 2, 3"));
    CHECK(asked.rows("SELECT count(*) FROM markers m JOIN calls c ON c.rank = m.rank AND c.step = m.step "
                     "WHERE m.marker = 'metric'") == "120 \n");
    CHECK(asked.rows("SELECT count(*) FROM calls WHERE rank IN (0, 2, 17)") == "80 \n");
}

// An expression is grouped by SQLite itself.
TEST_CASE("groups that a table makes by itself are those of SQLite") {
    Asked asked;
    for (const char* columns : {"op", "rank", "seq", "op, rank", "rank, seq, op", "host_ns", "gpu_ns", "step, op"}) {
        const std::string what = "count(*), sum(count), max(seq), min(rank) FROM calls WHERE rank <> 1 GROUP BY ";
        const std::string rows = asked.rows(fmt::format("SELECT {} {} ORDER BY 2, 3, 4, 1", what, columns));
        CHECK_MESSAGE(!rows.empty(), columns);
        const std::string hidden = "+" + std::string(columns);
        for (const char* direction : {"", " DESC"}) {
            const std::string ordered = fmt::format("SELECT {} {} ORDER BY {}{}", what, columns, columns, direction);
            const std::string by_sqlite = fmt::format("SELECT {} {} ORDER BY {}{}", what, hidden, hidden, direction);
            CHECK_MESSAGE(asked.rows(ordered) == asked.rows(by_sqlite), ordered);
        }
        CHECK_MESSAGE(rows == asked.rows(fmt::format("SELECT {} {} ORDER BY 2, 3, 4, 1", what, hidden)), columns);
    }
    for (const char* all : {"group_concat(op), group_concat(coalesce(host_ns, -1)), group_concat(entered_realtime_ns), "
                            "group_concat(span), group_concat(communicator) FROM calls GROUP BY {}rank ORDER BY {}rank",
                            "group_concat(coalesce(value + 0.0, 'none')), group_concat(coalesce(weight, 'no weight')), "
                            "group_concat(name), group_concat(ticks) FROM markers GROUP BY {}marker ORDER BY {}marker",
                            "group_concat(duration_ns), group_concat(bus_bytes), group_concat(value) FROM parts "
                            "GROUP BY {}kind ORDER BY {}kind"}) {
        const std::string rows = asked.rows("SELECT " + fmt::format(fmt::runtime(all), "", ""));
        CHECK(rows.size() > 100);
        CHECK(rows == asked.rows("SELECT " + fmt::format(fmt::runtime(all), "+", "+")));
    }
    // Steps are whole numbers there, and metrics are not.
    CHECK(asked.rows("SELECT count(*) FROM (SELECT DISTINCT value FROM markers)") ==
          asked.rows("SELECT count(*) FROM (SELECT DISTINCT +value FROM markers)"));
    CHECK(asked.rows("SELECT value + 0.0, count(*) FROM markers GROUP BY value ORDER BY value") ==
          asked.rows("SELECT value + 0.0, count(*) FROM markers GROUP BY +value ORDER BY value"));
}

TEST_CASE("a query reads, and does nothing else") {
    Asked asked;
    for (const char* sql : {"CREATE TABLE x (a)", "CREATE VIEW x AS SELECT 1", "CREATE TEMP TABLE x AS SELECT 1",
                            "ATTACH '/tmp/titan-sql-test' AS x", "PRAGMA writable_schema = 1", "DROP VIEW steps",
                            "SELECT load_extension('x')", "VACUUM INTO '/tmp/titan-sql-test'", "BEGIN", "ANALYZE"}) {
        CHECK_MESSAGE(asked.wrong(sql) != "", sql);
    }
    CHECK(asked.wrong("CREATE TABLE x (a)").find("only SELECT") == 0);
    CHECK(asked.wrong("INSERT INTO ranks VALUES (1)") != "");
    CHECK(asked.wrong("SELECT rnk FROM ranks").find("did you mean rank?") != std::string::npos);
    CHECK(asked.wrong("SELECT * FROM call").find("did you mean calls?") != std::string::npos);
    CHECK(asked.wrong("SELECT nonsense(") != "");
    // What is wrong with one leaves the others alone.
    CHECK(asked.rows("SELECT 1; -- and\n; SELECT 2;") == "1 \n2 \n");
}

TEST_CASE("a query stops at its limits") {
    Asked brief({.most_s = 0.05});
    const std::string endless =
        "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n";
    CHECK(brief.wrong(endless).find("stopped after 0.05 s") == 0);
    CHECK(brief.wrong("SELECT count(*) FROM calls a, calls b, calls c, calls d").find("stopped after") == 0);
    CHECK(brief.rows("SELECT 1") == "1 \n");
    Asked small({.most_s = 60, .most_mib = 8});
    CHECK(small
              .wrong("WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n) "
                     "SELECT i FROM n ORDER BY -i LIMIT 10000000")
              .find("stopped at 8 MiB") == 0);
    CHECK(small.rows("SELECT count(*) FROM calls") == "120 \n");
}

// As cells they would take 16 bytes a column: 9 MiB.
TEST_CASE("grouped rows take few bytes") {
    constexpr uint64_t kCalls = 65536;
    Asked small({.most_s = 60, .most_mib = 6}, kCalls);
    const uint64_t sum = kCalls / 2 * (kCalls - 1);
    CHECK(
        small.rows("SELECT communicator_name, count(*), sum(count), sum(seq) FROM calls GROUP BY communicator_name") ==
        fmt::format("\"world\" {} {} {} \n", 3 * kCalls, 3 * sum, 3 * sum));
    CHECK(
        small.wrong("SELECT seq, rank, min(count), min(step) FROM calls GROUP BY seq, rank").find("stopped at 6 MiB") ==
        0);
}

TEST_CASE("tables and views say what they are") {
    Asked asked;
    for (const SqlTableHelp& table : asked.database().help()) {
        CHECK_MESSAGE(!table.meaning.empty(), table.name);
        CHECK_MESSAGE(!table.columns.empty(), table.name);
        CHECK_MESSAGE(asked.wrong("SELECT * FROM " + table.name) == "", table.name);
        for (const SqlColumn& column : table.columns) {
            CHECK_MESSAGE(asked.wrong(fmt::format("SELECT \"{}\" FROM {}", column.name, table.name)) == "", table.name);
        }
    }
}

// What is kept of one rank goes when that of the next needs its memory, though a loop further out still reads it.
TEST_CASE("rows that are given up stay with those who go through them") {
    constexpr uint64_t kCalls = 16384;
    Asked small({.most_s = 60, .most_mib = 8}, kCalls);
    const uint64_t all = 4 * 3 * kCalls, sum = all / 2 * (kCalls - 1);
    CHECK(small.rows("WITH n(i) AS (VALUES (1), (2), (3), (4)) SELECT count(*), sum(b.seq), sum(c.count) "
                     "FROM n CROSS JOIN ranks r CROSS JOIN calls b CROSS JOIN calls c "
                     "WHERE b.rank = r.rank AND c.rank = (b.rank + 1) % 3 AND c.seq = b.seq AND b.ticket >= 0 "
                     "AND b.step >= -1 AND c.ticket >= 0 AND c.step >= -1") ==
          fmt::format("{} {} {} \n", all, sum, sum));
}
