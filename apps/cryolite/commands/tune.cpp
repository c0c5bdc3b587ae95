// cryolite tune: searches for faster loops and lines of the schedule of a training step, and keeps what it finds.

#include <chrono>
#include <ctime>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "apps/cryolite/cli/commands.h"
#include "apps/cryolite/endings/interrupt.h"
#include "apps/cryolite/run/work_folder.h"
#include "apps/cryolite/inputs/random_batches.h"
#include "apps/cryolite/inputs/run_data.h"
#include "apps/cryolite/report/overwrite.h"
#include "apps/cryolite/report/page.h"
#include "apps/cryolite/session/memory_choice.h"
#include "apps/cryolite/session/session.h"
#include "apps/cryolite/session/tuned_lines.h"
#include "apps/cryolite/tune/check_model.h"
#include "apps/cryolite/tune/choice_text.h"
#include "apps/cryolite/tune/kept_choice.h"
#include "apps/cryolite/tune/measure/measure.h"
#include "apps/cryolite/tune/measure/program_measurer.h"
#include "apps/cryolite/tune/search_page.h"
#include "apps/cryolite/tune/search_words.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/device/hardware.h"
#include "runtime/io/error.h"
#include "runtime/system/process.h"
#include "runtime/system/streams.h"

namespace cryolite {

using nlohmann::json;

namespace {

class Tune {
public:
    explicit Tune(const std::vector<std::string> &arguments)
        : request_(read_request(Command::tune, arguments)), s_(understand(request_)), cache_(s_.cache),
          threads_(threads_of_worker(s_, core_numbers())) {
        if (s_.search_seconds > 0 && (s_.show || s_.forget))
            fail_usage("--{} is of an earlier search, and --for begins one: leave one of them out",
                       s_.show ? "show" : "forget");
        if (s_.show && s_.forget) fail_usage("--show and --forget: leave one of them out");
        if (!asks() && !(s_.search_seconds > 0))
            fail_usage("tune needs --for TIME: how long to search, as in --for 15m");
        if (asks() && !s_.report.empty()) fail_usage("--report is of a search: it needs --for TIME");
        if (s_.from_scratch && s_.same_bits)
            fail_usage(
                "--same-bits keeps the bits of the shipped loops, which --from-scratch begins without: leave one "
                "of them out");
        const Hardware hardware = hardware_of(s_.device);  // without the device, nothing can be timed
        where_ = s_.device == "cpu" ? fmt::format("{} thread{}", threads_, threads_ == 1 ? "" : "s") : hardware.name;
        if (request_.program.path.empty())
            fail_usage("tune compiles candidates, but this build has no compiler: use one that has (./cryolite)");
        check_page_file("report", s_.report);
        check_overwrite("export", s_.export_lines, lines_heading, "file of lines that a search found");
        if (processes().size() > 1)
            fail_usage("tune runs in one process: leave out mpirun, and give --workers N for a step of N workers");
        data_ = s_.data.empty() ? random_data(s_, request_) : open_data(s_, request_);
        for (const std::string &note : idle_flag_notes(request_)) progress_.say(note);
    }

    int run() {
        SearchRecords records(cache_.folder(), search_machine(threads_, s_.device));
        const std::string why = !records.hindrance().empty() || asks() ? records.hindrance() : records.why_read_only();
        if (!why.empty())
            fail("tune keeps what it measures in {}, which cannot be used: {}; name another --cache DIR",
                 SearchRecords::file(cache_.folder()).string(), why);
        if (asks()) {
            choose_for_memory(s_, request_, cache_, progress_);  // as the search does, so that the step is the same
            choose_step();
            return answer(records);
        }
        open_bundle(s_, request_, progress_);  // compiles the shipped step, which does not count in --for
        choose_step();
        return s_.check_lines ? check(records) : search(records);
    }

private:
    using Clock = std::chrono::steady_clock;
    Request request_;
    TrainSettings s_;
    Cache cache_;
    const int threads_;
    std::string where_;  ///< steps are timed: "2 threads", or the hardware of a device
    RunData data_;
    Progress progress_;
    std::string step_;
    Clock::time_point began_ = Clock::now();
    bool header_ = false;
    int not_legal_ = 0;  ///< lines refused since the last row of the table
    SearchReport report_;

    /// Whether it is about an earlier search, and there is none to make.
    bool asks() const { return s_.show || s_.forget || (!s_.export_lines.empty() && !(s_.search_seconds > 0)); }
    void export_choice(const SearchChoice &c) {
        if (s_.export_lines.empty()) return;
        write_file_atomic(s_.export_lines, file_of(c));
        progress_.say(fmt::format("{}: take it with --schedule", s_.export_lines.string()));
    }

    std::string step_named(bool from_scratch) const {
        return step_digest(s_, request_, cache_) + (from_scratch ? "-from-scratch" : "");
    }
    void choose_step() { step_ = step_named(s_.from_scratch); }
    /// Says so if the other kind of search has a result.
    void say_other(SearchRecords &records) {
        if (const auto other = records.choice(step_named(!s_.from_scratch)); other && !other->lines.empty())
            progress_.say(s_.from_scratch
                              ? "a search from the shipped schedule has a result too: leave out --from-scratch"
                              : "a search from scratch has a result too: add --from-scratch");
    }
    double seconds_gone() const { return std::chrono::duration<double>(Clock::now() - began_).count(); }
    double seconds_left() const { return s_.search_seconds - seconds_gone(); }

    /// --show, --export and --forget.
    int answer(SearchRecords &records) {
        const std::optional<SearchChoice> found = records.choice(step_);
        if (s_.forget) {
            progress_.say(!records.forget(step_) ? "there was nothing to forget for this step"
                          : s_.from_scratch      ? "forgotten"
                                                 : "forgotten: train takes the shipped schedule again");
            return 0;
        }
        if (s_.show) say_other(records);
        if (!found) {
            progress_.say(fmt::format("no search for this step on this machine with {}: cryolite tune {}{}{} --for 15m "
                                      "makes one, with the flags of this step",
                                      where_, request_.app, s_.device == "cpu" ? "" : " --device " + s_.device,
                                      s_.from_scratch ? " --from-scratch" : ""));
            return 1;
        }
        export_choice(*found);
        if (s_.show && s_.json)
            print_line(tuned_json(*found).dump());
        else if (s_.show)
            fmt::print("{}", file_of(*found));
        return 0;
    }

    static json tuned_json(const SearchChoice &c) {
        return {{"event", "tuned"},           {"before_s", c.before},
                {"after_s", c.after},         {"gain", c.after > 0 ? c.before / c.after - 1 : 0.0},
                {"candidates", c.candidates}, {"refused", c.refused},
                {"lines", lines_of(c)}};
    }

    ProgramMeasurer measurer_in(const fs::path &work, const SearchRecords &records) {
        return {request_.program,
                s_,
                cache_,
                work,
                threads_,
                s_.from_scratch ? scratch_lines : "",
                [&records](const std::string &kernel) { return records.time_of(kernel); }};
    }

    /// --check-model: compares the predicted change by each line with the measured one.
    int check(SearchRecords &records) {
        const WorkFolder work("cryolite-tune");
        ProgramMeasurer measurer = measurer_in(work.path, records);
        began_ = Clock::now();
        progress_.say("measured   model  kernels  line; the step's time with it as part of that without it");
        const ModelCheck check = check_model(
            measurer, records, s_.check_lines, [this] { return seconds_left(); },
            [this](const CheckedLine &l) {
                if (s_.json)
                    print_line(json{{"event", "checked"},
                                    {"line", l.line},
                                    {"model", l.model},
                                    {"kernels", l.kernels},
                                    {"measured", l.measured},
                                    {"noise", l.noise},
                                    {"counts", l.counts()}}
                                   .dump());
                progress_.say(
                    fmt::format("{:8.3f} {:7.3f} {:8.3f}  {}", l.measured, l.model, l.kernels, without_tail(l.line)));
            });
        const int model = check.right(&CheckedLine::model), kernels = check.right(&CheckedLine::kernels);
        if (s_.json)
            print_line(json{{"event", "model"},
                            {"timed", check.lines.size()},
                            {"counted", check.counted()},
                            {"right_by_model", model},
                            {"right_by_kernels", kernels},
                            {"refused", check.refused},
                            {"busy", check.busy}}
                           .dump());
        progress_.say(fmt::format("of {} lines that change the step by more than 3 %, {} were predicted with the right "
                                  "sign and within a third by the model, {} by the sum of their kernels' times; {} "
                                  "lines were timed, {} refused, {} not timed as the machine was busy",
                                  check.counted(), model, kernels, check.lines.size(), check.refused, check.busy));
        return 0;
    }

    int search(SearchRecords &records) {
        const CacheLock lock = cache_.lock_patiently(
            "searches-" + step_.substr(0, 16), false,
            [this] {
                progress_.say("waiting for another search for this step, whose records this one will use; it takes as "
                              "long as that one was given, and Ctrl-C ends the waiting");
            },
            {});
        const WorkFolder work("cryolite-tune");
        if (s_.from_scratch) progress_.say("scheduling every kernel automatically");
        ProgramMeasurer measurer = measurer_in(work.path, records);
        defer_signals("\nstopping with the best so far; once more stops at once\n");
        began_ = Clock::now();
        SearchChoice choice{.app = request_.app, .same_bits = s_.same_bits};
        std::string failure;
        KeptChoice kept(records, step_, s_.same_bits);
        if (kept.replaced())
            progress_.say("the lines of an earlier search change bits of the training: what this search ends with "
                          "replaces them\n" +
                          file_of(*kept.replaced()));
        Search search(measurer, records,
                      {.same_bits = s_.same_bits,
                       .from_scratch = s_.from_scratch,
                       .step = step_,
                       .seconds_left = [this] { return seconds_left(); },
                       .stopped = [] { return interrupted(); },
                       .tell = [this](const SearchNews &n) { tell_news(n); },
                       .keep = [&](const SearchResult &r) { kept.so_far(so_far(choice, r)); }});
        try {
            choice.before = measurer.step_seconds("");
            progress_.say(fmt::format("{}: {:.2f} ms a step on {}", model_name(request_), 1e3 * choice.before, where_));
            report_.title = fmt::format("{}: a search for a faster step", model_name(request_));
            if (!s_.report.empty()) report_.before = measurer.profile("");
            search.run(choice.before);
        } catch (const Interrupted &) {
        } catch (const Error &e) {  // such as a full disk: what is found so far is kept, or printed
            failure = e.what();
        }
        say_not_legal();
        const int status = finish(kept, measurer, choice, search.result(), interrupted());
        write_report(measurer, choice, search.result());
        if (!failure.empty())
            fail("the search ended before its time: {}\nwhat it measures is kept in {}: where that cannot be written, "
                 "name another --cache DIR",
                 failure, SearchRecords::file(cache_.folder()).string());
        return status;
    }

    /// Times the step with all that was found beside the step that the search began with, which it has to beat.
    int finish(KeptChoice &kept, ProgramMeasurer &measurer, SearchChoice &choice, const SearchResult &result,
               bool stopped) {
        const std::string found = joined(result.lines);
        choice.lines = found, choice.candidates = result.candidates, choice.refused = result.refused;
        choice.after = choice.before;
        std::string words;
        if (!found.empty()) {
            const auto measure = [&] { return whole([&] { return measurer.time_step("", found); }); };
            Timing t = measure();
            // Each line won in the whole step when it was kept, so one measurement does not cost them all.
            if (t.refused.empty() && (t.busy || t.ratio() >= 1) && !stopped) t = measure();
            const bool bits = t.same_bits || !s_.same_bits;
            if (t.refused.empty() && bits && !t.busy && t.ratio() < 1) {
                choice.before = t.before, choice.after = t.after;
            } else {
                words = !t.refused.empty() ? t.refused
                        : !bits            ? "it changes bits of the training"
                        : t.busy           ? "the machine is too busy to see whether it is faster"
                                           : "it is not faster as a whole";
                report_.not_taken = words;
                progress_.say(fmt::format("what was found is not taken: {}:\n{}", words, file_of(choice)));
                choice.lines.clear();
            }
        }
        choice.lines = with_base(choice.lines);
        const SearchChoice stays = keep(kept, choice, measurer, found);
        if (s_.json) {
            json j = tuned_json(choice);
            j["unsure"] = result.unsure;
            j["moves"] = {
                {"tried", result.lines_tried}, {"refused", result.lines_refused}, {"kept", result.lines_kept}};
            print_line(j.dump());
        }
        progress_.say(fmt::format("{:.3f} ms a step instead of {:.3f}, {}", 1e3 * choice.after, 1e3 * choice.before,
                                  counts(result)));
        if (s_.from_scratch) say_shipped(measurer, choice.lines == scratch_lines ? "" : found);
        export_choice(stays);
        if (!s_.json) fmt::print("{}", file_of(stays));
        return stopped ? interrupted_status : 0;
    }
    static std::string counts(const SearchResult &r) {
        return fmt::format("{} candidates ({} known from before), {} refused; of them lines of the step schedule: {} "
                           "tried, {} refused, {} kept{}",
                           r.candidates, r.known, r.refused, r.lines_tried, r.lines_refused, r.lines_kept,
                           r.unsure ? fmt::format("; {} compared with the shipped kernel alone", r.unsure) : "");
    }
    /// Says how the time of a step from scratch compares with that of the shipped step.
    void say_shipped(ProgramMeasurer &measurer, const std::string &found) {
        const Timing t = whole([&] { return measurer.time_beside_shipped(found); });
        if (!t.refused.empty() || t.busy)
            progress_.say(
                fmt::format("beside the shipped schedule: {}", t.busy ? "the machine is too busy" : t.refused));
        else
            progress_.say(
                fmt::format("beside the shipped schedule, timed in turn: {:.3f} ms a step by these lines, {:.3f} ms by "
                            "the shipped ones, {:.2f} times as long; train takes these by --schedule",
                            1e3 * t.after, 1e3 * t.before, t.before / t.after));
    }
    void write_report(ProgramMeasurer &measurer, const SearchChoice &choice, const SearchResult &result) {
        if (s_.report.empty()) return;
        report_.lines = lines_of(choice);
        report_.after = report_.not_taken.empty() && !result.lines.empty() ? measurer.profile(joined(result.lines))
                                                                           : report_.before;
        report_.summary = fmt::format("{:.3f} ms a step instead of {:.3f}, timed in turn on {}; in {}, {}{}",
                                      1e3 * choice.after, 1e3 * choice.before, where_, clock_text(seconds_gone()),
                                      counts(result), s_.same_bits ? "; only what changes no bit of the training" : "");
        write_file_atomic(s_.report, search_page(report_));
        progress_.say(fmt::format("the search is in {}", s_.report.string()));
    }
    /// Ctrl-C ends the search, not this measurement.
    static Timing whole(const std::function<Timing()> &time) {
        try {
            return time();
        } catch (const Interrupted &) {
            return time();
        }
    }

    /// An earlier choice that was kept for the same step is timed beside this one. Returns the faster one, which stays.
    SearchChoice keep(KeptChoice &kept, const SearchChoice &choice, ProgramMeasurer &measurer,
                      const std::string &found) {
        const auto beats = [&](const SearchChoice &earlier) {
            const std::string lines =
                s_.from_scratch ? earlier.lines.substr(std::min(earlier.lines.size(), scratch_lines.size() + 2))
                                : earlier.lines;
            if (!measurer.step(lines).refused.empty()) return true;  // the program has changed since
            const Timing t = whole([&] { return measurer.time_step(lines, found); });
            return t.busy || !t.refused.empty() ? gains_more(choice, earlier) : t.ratio() < 1;
        };
        try {
            const SearchChoice stays = kept.end(choice, beats);
            if (stays.lines != choice.lines)
                progress_.say(has_lines(choice) ? "the lines of an earlier search are faster, and stay"
                                                : "nothing better was found, and the lines of an earlier search stay");
            return stays;
        } catch (const Error &e) {
            fmt::print("{}", file_of(choice));
            fail("what was found, printed above, could not be kept in {}: {}",
                 SearchRecords::file(cache_.folder()).string(), e.what());
        }
    }
    /// The lines of the search after those that it began with.
    std::string with_base(const std::string &found) const {
        return !s_.from_scratch ? found : scratch_lines + (found.empty() ? "" : "; " + found);
    }
    /// What a search has found so far. Its time is the product of the ratios that its changes were confirmed with.
    SearchChoice so_far(SearchChoice choice, const SearchResult &r) const {
        choice.lines = with_base(joined(r.lines));
        choice.after = choice.before * r.step, choice.candidates = r.candidates, choice.refused = r.refused;
        return choice;
    }

    void say_not_legal() {
        if (const int n = std::exchange(not_legal_, 0); n > 0)
            progress_.say(fmt::format("{} line{} not legal in this step: --json and --report tell why", n,
                                      n == 1 ? " is" : "s are"));
    }
    void tell_news(const SearchNews &n) {
        report_.moments.push_back({seconds_gone(), n});
        if (s_.json) print_line(event_of(n, seconds_left()).dump(-1, ' ', false, json::error_handler_t::replace));
        if (n.what == SearchNews::of_candidate) return progress_.busy(live_line(n, seconds_left()));
        // Lines that are not legal have no prediction. There may be dozens at once, so that they are only counted.
        if (n.what == SearchNews::of_line && !n.refused.empty() && n.predicted == 0) return void(not_legal_++);
        say_not_legal();
        if (!header_) progress_.say(search_header);
        header_ = true;
        progress_.say(search_row(n, seconds_left()));
    }
};

}  // namespace

int run_tune(const std::vector<std::string> &arguments) {
    if (arguments.size() == 2 && arguments[0] == "--measure") {  // the child of a search, which measures
        fmt::print("{}\n", measure(read_file(arguments[1])));
        return 0;
    }
    return Tune(arguments).run();
}

}  // namespace cryolite
