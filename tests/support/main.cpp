// Runs the test cases. A filter that matches none is a failure: a test that was renamed must not
// pass unseen.

#define DOCTEST_CONFIG_IMPLEMENT
// Children that are meant to crash do so by themselves.
#define DOCTEST_CONFIG_NO_POSIX_SIGNALS
#include <doctest/doctest.h>

#include <cstdio>

namespace {

int cases = 0;

struct Counter : doctest::IReporter {
    explicit Counter(const doctest::ContextOptions &) {}
    void report_query(const doctest::QueryData &) override {}
    void test_run_start() override {}
    void test_run_end(const doctest::TestRunStats &s) override { cases = int(s.numTestCasesPassingFilters); }
    void test_case_start(const doctest::TestCaseData &) override {}
    void test_case_reenter(const doctest::TestCaseData &) override {}
    void test_case_end(const doctest::CurrentTestCaseStats &) override {}
    void test_case_exception(const doctest::TestCaseException &) override {}
    void subcase_start(const doctest::SubcaseSignature &) override {}
    void subcase_end() override {}
    void log_assert(const doctest::AssertData &) override {}
    void log_message(const doctest::MessageData &) override {}
    void test_case_skipped(const doctest::TestCaseData &) override {}
};
REGISTER_LISTENER("counter", 1, Counter);

}  // namespace

int main(int argc, char **argv) {
    doctest::Context context(argc, argv);
    int status = context.run();
    if (context.shouldExit()) return status;
    if (cases == 0) std::fprintf(stderr, "no test case matches\n");
    return cases == 0 ? 1 : status;
}
