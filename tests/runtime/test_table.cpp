#include "runtime/data/table.h"
#include "tests/runtime/scratch.h"

#include <algorithm>

namespace cryolite::test {

TEST_CASE("table: the embedded digits") {
    const fs::path path = source_file("apps/digits/data/digits.csv.gz");
    const Table table = load_table(path, {.columns = 64, .classes = 10});
    CHECK(table.rows() == 1797);
    CHECK(table.columns == 64);
    CHECK(table.classes == 10);
    CHECK(table.row(0)[2] == 5);
    CHECK(table.labels[2] == 2);
    CHECK(*std::max_element(table.features.begin(), table.features.end()) == 16);
    const auto [train, held_out] = split_held_out(table);
    CHECK(held_out.rows() == 360);
    CHECK(train.rows() == 1437);
    CHECK(held_out.labels[1] == table.labels[5]);
    CHECK(train.labels[0] == table.labels[1]);
    CHECK(train.row(4)[10] == table.row(6)[10]);
}

TEST_CASE("table: numbers as people write them") {
    Scratch scratch;
    const Table table = load_table(write_plainly(scratch / "a.csv", "1.5, -2e-3 ,0\r\n\r\n 3,\t4,7"));
    CHECK(table.features == std::vector<float>{1.5f, -2e-3f, 3, 4});
    CHECK(table.labels == std::vector<int32_t>{0, 7});
    CHECK(table.classes == 8);
}

TEST_CASE("table: errors name the line and the column") {
    Scratch scratch;
    const fs::path path = scratch / "a.csv";
    const auto refused = [&](std::string_view text, const char *part, TableOptions options = {}) {
        CHECK_ERROR(load_table(write_plainly(path, text), options), part);
    };
    CHECK_ERROR(load_table(path), "No such file");
    refused("", "a.csv: no rows");
    refused("\n\n", "a.csv: no rows");
    refused("1,2,0\n1,x,0\n", "a.csv: line 2, column 2: \"x\" is not a number");
    for (const char *irises : {"a,b,class\n1,2,setosa\n", "1,2,setosa\n"})
        refused(
            irises,
            "column 3: \"setosa\" is not a number; the last column is the class of the row, a whole number from 0 on");
    refused("1,,0\n", "line 1, column 2: \"\" is not a number");
    refused("1,2,0,\n", "line 1, column 4: \"\" is not a number");
    refused("1,2 3,0\n", "column 2: \"2 3\" is not a number");
    refused("1,nan,0\n", "column 2: \"nan\" is not a finite number");
    refused("1,inf,0\n", "is not a finite number");
    refused("1,1e99,0\n", "\"1e99\" is outside what a float holds");
    refused("1,2,0\n1,2,3,0\n", "line 2, column 4: 4 fields, expected 3: 2 features and a label");
    refused("1,2,0\n1,0\n", "line 2, column 2: 2 fields, expected 3");
    refused("5\n", "line 1, column 1: one field");
    refused("1,2,0.5\n", "line 1, column 3: the label 0.5 is neither a whole number");
    refused("1,2,-1\n", "the label -1 is neither a whole number");
    refused("1,2,1e9\n", "is neither a whole number");
    refused("1,2,-100\n", "a.csv: no row has a label");
    const Table some = load_table(write_plainly(path, "1,2,-100\n3,4,1\n"));
    CHECK(some.labels == std::vector<int32_t>{no_label, 1});
    CHECK(some.classes == 2);
    refused("1,2,0\n\n1,2,16777215\n1,2,65536\n",
            "line 3, column 3: the label 16777215 would make 16777216 classes of 3 rows");
    refused("1,2,65536\n", "give --classes 65537");
    CHECK(load_table(write_plainly(path, "1,2,65535\n")).classes == 65536);
    CHECK(load_table(write_plainly(path, "1,2,65536\n"), {.classes = 70000}).classes == 70000);
    refused("1,2,10\n", "the label 10 is not one of 10 classes (0 to 9)", {.classes = 10});
    refused("1,2,0\n", "3 fields, expected 65", {.columns = 64});
}

TEST_CASE("table: a first line that is text in every column names them") {
    Scratch scratch;
    const fs::path path = scratch / "a.csv";
    const auto names = [&](std::string_view text, TableOptions options = {}) {
        const Table table = load_table(write_plainly(path, text), options);
        CHECK(table.rows() == 2);
        CHECK(table.columns == 2);
        return table.names;
    };
    using Names = std::vector<std::string>;
    CHECK(names("1,2,0\n3,4,1\n") == Names{});
    CHECK(names("a,b,label\n1,2,0\n3,4,1\n") == Names{"a", "b", "label"});
    CHECK(names("\xef\xbb\xbf\r\n \"a, in m\" ,\t2nd ,\"label\"\r\n1,2,0\r\n3,4,1\r\n") ==
          Names{"a, in m", "2nd", "label"});
    CHECK(names("\xef\xbb\xbf"
                "1,2,0\n3,4,1\n") == Names{});
    CHECK(names("a,b,price\n1,2,0.5\n3,4,1.5\n", {.targets = 1}) == Names{"a", "b", "price"});
    const auto refused = [&](std::string_view text, const char *part, TableOptions options = {}) {
        CHECK_ERROR(load_table(write_plainly(path, text), options), part);
    };
    refused("a,b,label\n", "a.csv: no rows");
    refused("a,b,label\nc,d,e\n1,2,0\n", "line 2, column 1: \"c\" is not a number");
    refused("a,b,label\n1,2\n", "line 2, column 2: 2 fields, expected 3: 2 features and a label");
    refused("a,b,label\n1,2,0\n", "line 1, column 3: 3 fields, expected 5", {.columns = 4});
    // What may be a row whose numbers are missing, or of which some are, is no header.
    constexpr const char *hint = "\"a\" is not a number; a first line is skipped as a header where each field is text";
    refused("a,1,label\n1,2,0\n", hint);
    refused("a,b,a\n1,2,0\n", hint);
    refused("a,,label\n1,2,0\n", hint);
    refused(",a,b,label\n0,1,2,0\n", "line 1, column 1: \"\" is not a number; a first line is skipped as a header");
    refused("NA,NA,NA\n1,2,0\n", "line 1, column 1: \"NA\" is not a number");
    refused("+1,nan,1e99\n1,2,0\n", "line 1, column 1: \"+1\" is not a number");
    refused("\"1\",\"2\",\"0\"\n1,2,0\n", "line 1, column 1: ");
    refused("a;b;label\n1;2;0\n",
            "line 1, column 1: one field, expected features and a label; a comma is what separates");
}

TEST_CASE("table: labels that no row has") {
    Scratch scratch;
    const auto absent = [&](std::string_view text) {
        return absent_labels(load_table(write_plainly(scratch / "a.csv", text)));
    };
    CHECK(absent("1,0\n1,1\n1,-100\n") == std::vector<int>{});
    CHECK(absent("1,7\n1,1\n1,2\n1,-100\n") == std::vector<int>{0, 3, 4, 5, 6});
}

TEST_CASE("table: numbers to predict, in the last columns") {
    Scratch scratch;
    const fs::path path = scratch / "a.csv";
    Table table = load_table(write_plainly(path, "1,2,-0.5\n3,4,1e6\n5,6,0\n"), {.targets = 1});
    CHECK(table.rows() == 3);
    CHECK(table.columns == 2);
    CHECK(table.features == std::vector<float>{1, 2, 3, 4, 5, 6});
    CHECK(table.numbers == std::vector<float>{-0.5f, 1e6f, 0});
    CHECK(table.labels.empty());
    const auto [train, held_out] = split_held_out(table);
    CHECK(train.rows() == 2);
    CHECK(train.numbers == std::vector<float>{1e6f, 0});
    CHECK(held_out.numbers_of(0)[0] == -0.5f);
    table = load_table(path, {.targets = 2});
    CHECK(table.columns == 1);
    CHECK(table.numbers == std::vector<float>{2, -0.5f, 4, 1e6f, 6, 0});
    const auto refused = [&](std::string_view text, const char *part, size_t targets = 1) {
        CHECK_ERROR(load_table(write_plainly(path, text), {.targets = targets}), part);
    };
    refused("1,2,3\n1,2,nan\n", "a.csv: line 2, column 3: \"nan\" is not a finite number");
    refused("1,2,3\n1,2,\n", "line 2, column 3: \"\" is not a number");
    refused("1,2,3\n1,2,inf\n", "line 2, column 3: \"inf\" is not a finite number");
    refused("1,2,3\n1,2,1e39\n", "line 2, column 3: \"1e39\" is outside what a float holds");
    refused("1,2,3\n\n1,2\n", "line 3, column 2: 2 fields, expected 3: 2 features and a target");
    refused("7\n", "line 1, column 1: one field, expected features and a target");
    refused("7,8\n", "line 1, column 2: 2 fields, expected features and 2 targets", 2);
    refused("", "no rows; expected lines of numbers with a target last");
}

TEST_CASE("table: damaged gzip files") {
    Scratch scratch;
    const std::string good = read_file(source_file("apps/digits/data/digits.csv.gz"));
    const fs::path path = scratch / "d.csv.gz";
    CHECK_ERROR(load_table(write_plainly(path, good.substr(0, good.size() / 2))),
                "d.csv.gz: the gzip file is truncated");
    CHECK_ERROR(load_table(write_plainly(path, good.substr(0, good.size() - 3))), "the gzip file is truncated");
    std::string damaged = good;
    damaged[damaged.size() / 2] ^= 0x55;
    CHECK_ERROR(load_table(write_plainly(path, damaged)), "d.csv.gz: the gzip file is damaged");
    CHECK_ERROR(load_table(write_plainly(path, good + "junk")), "the gzip file is damaged");
    CHECK(expand_gzip(good + good, "").size() == 2 * expand_gzip(good, "").size());
    CHECK_ERROR(expand_gzip(good, "x.gz", 1000), "x.gz: the gzip file expands to more than 1.0 kB");
    CHECK(expand_gzip("plain", "") == "plain");
    CHECK_ERROR(expand_gzip("\x1f\x8b", "x.gz"), "truncated");
}

}  // namespace cryolite::test
