// The data of a run: what is wrong between tables and the model, or with what a flag names, is said before anything is
// compiled.

#include "apps/cryolite/cli/commands.h"
#include "apps/cryolite/inputs/run_data.h"
#include "tests/runtime/scratch.h"

namespace cryolite::test {

namespace {

/// A program that reads as many features as --columns says, and can compile nothing.
struct Rows {
    Scratch scratch;
    Request request;

    explicit Rows(const std::string &targets = "classes", const std::string &table = "1,2,3,0\n4,5,6,1\n7,8,9,1\n") {
        const fs::path program =
            write_plainly(scratch / "rows", R"(#!/bin/sh
columns=3
for word; do case $word in columns=*) columns=${word#columns=} ;; esac; done
case "$*" in
    --describe*) ;;
    --check*classes=2*) exit 0 ;;
    --check*) exit 3 ;;
    *) echo 'it was asked to compile' >&2; exit 1 ;;
esac
echo '{"name":"rows","task":"features","targets":")" +
                                                targets +
                                                R"(","columns":'$columns',"outputs":1,"optimizer":"adamw",'
echo '"optimizers":[{"name":"adamw","numbers":[{"name":"lr","value":0.1,"range":{"above":0},"help":""}]}],"presets":[],'
echo '"params":[{"name":"batch","type":"int","value":"2","help":""},{"name":"classes","type":"int","value":"10",'
echo '"help":""},{"name":"columns","type":"int","value":"3","help":""}]}')");
        fs::permissions(program, fs::perms(0700));
        request.app = program;
        give("data", write_plainly(scratch / "table.csv", table));
        give("cache", scratch / "cache");
        request.program = find_program(program, Cache(scratch / "cache"));
    }
    void give(const std::string &flag, const std::string &text) {
        request.values.give(flag, {text, Origin::command_line});
    }
    RunData open() {
        TrainSettings s = understand(request);
        return open_data(s, request);
    }
};

}  // namespace

TEST_CASE("data: a table that is not as wide as the model reads is refused before anything is compiled") {
    Rows rows;
    CHECK(rows.open().rows.columns == 3);
    rows.give("columns", "5");
    CHECK_ERROR(rows.open(), "table.csv has 3 features in a row, the model reads 5: name another --data, or give "
                             "--columns 3");
    CHECK_THROWS_AS(rows.open(), UsageError);
    rows.request.values.erase("data");
    CHECK_ERROR(rows.open(), "no --data is given, and digits.csv.gz, its default, has 64 features in a row, the "
                             "model reads 5: name data with --data, or give --columns 64");
    rows.request.command = Command::explain;
    CHECK(rows.open().rows.columns == 64);
    Rows numbers("numbers");
    CHECK(numbers.open().rows.targets == 1);
    numbers.give("columns", "4");
    CHECK_ERROR(numbers.open(), "table.csv has 3 features in a row, the model reads 4");
}

TEST_CASE("data: a program that says not how wide its rows are is refused") {
    const Rows rows;
    std::string text = description_json(rows.request.program.description);
    text.replace(text.find("\"columns\":3"), 11, "\"columns\":0");
    CHECK_THROWS_WITH(read_description(text), "0 features of a row, expected at least 1");
}

TEST_CASE("data: a header line is said, and that of --val has to be the same") {
    CHECK(Rows().open().about == "2 rows of 3 features to train on, 1 held out, 2 classes");
    Rows rows("classes", "age,\"the income\",s\xc3\xb6x,kind\n1,2,3,0\n4,5,6,1\n7,8,9,1\n");
    CHECK(rows.open().about == "2 rows of 3 features to train on, 1 held out, 2 classes; the first line is a header: "
                               "age, the income, s\xc3\xb6x, and the label kind");
    rows.give("val", write_plainly(rows.scratch / "val.csv", "age,s\xc3\xb6x,the income,kind\n1,2,3,0\n"));
    CHECK_ERROR(rows.open(), "val.csv: column 2 is called \"s\\xc3\\xb6x\", in ");
    CHECK_ERROR(rows.open(), "table.csv it is \"the income\"");
    rows.give("val", write_plainly(rows.scratch / "val.csv", "1,2,3,0\n"));
    CHECK(rows.open().held_out.rows() == 1);
}

TEST_CASE("data: check has the classes of --data, and says what was read") {
    const Rows rows;
    std::vector<std::string> words = {rows.request.app, "--cache", rows.scratch / "cache"};
    CHECK(run_check(words) == 3);
    words.insert(words.end(), {"--data", rows.scratch / "table.csv"});
    int status = -1;
    const std::string said = stderr_of([&] { status = run_check(words); });
    CHECK(status == 0);
    CHECK(said == "data: table.csv: 2 rows of 3 features to train on, 1 held out, 2 classes\n");
}

TEST_CASE("data: labels that do not occur are said once") {
    const auto warnings = [](const std::string &table) {
        Rows rows("classes", table);
        return stderr_of([&] { rows.open(); });
    };
    CHECK(warnings("1,2,3,0\n1,2,3,1\n1,2,3,-100\n") == "");
    CHECK(warnings("1,2,3,0\n1,2,3,1\n1,2,3,2\n1,2,3,7\n") ==
          "warning: table.csv: labels 3 to 6 do not occur, though the largest is 7, in 1 row: an output without rows "
          "learns nothing. Number the labels from 0 without gaps, or correct what is no label: --classes N "
          "names the first row whose label is N or more\n");
    CHECK(warnings("1,2,3,1\n1,2,3,2\n1,2,3,2\n")
              .starts_with("warning: table.csv: label 0 does not occur, though the largest is 2, in 2 rows: "));
    CHECK(contains(warnings("1,2,3,40\n1,2,3,2\n1,2,3,4\n1,2,3,6\n1,2,3,8\n1,2,3,10\n1,2,3,12\n1,2,3,14\n1,2,3,16\n"),
                   "labels 0, 1, 3, 5, 7, 9, 11, 13, ... do not occur, though the largest is 40, in 1 row: "));
}

TEST_CASE("--tokenizer, --data and --val are named where they cannot be read") {
    const Scratch scratch;
    const auto open = [&](const char *flag, const fs::path &value) {
        const Request r =
            read_request(Command::train, {"llama", flag, value, "--batch", "1", "--cache", scratch / "cache"});
        TrainSettings s = understand(r);
        open_data(s, r);
    };
    CHECK_ERROR(open("--tokenizer", scratch / "none.json"), "--tokenizer: cannot read ");
    for (const char *flag : {"--data", "--val"})
        CHECK_ERROR(open(flag, scratch.path),
                    fmt::format("{} {} is a folder, expected a text or a token shard", flag, scratch.path.string()));
    CHECK_ERROR(open("--context", "1500000"), "the default text, as no --data is given: ");
}

}  // namespace cryolite::test
