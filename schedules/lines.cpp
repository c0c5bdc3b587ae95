#include "schedules/lines.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstring>
#include <optional>
#include <span>

#include <fmt/ranges.h>

#include "bundle/near_names.h"
#include "bundle/setting.h"
#include "dsl/model.h"
#include "schedules/line_names.h"

namespace cryolite {

namespace {

class Parser {
public:
    Parser(Step &step, const LineNames &names, const std::string &text, const std::string &called)
        : step_(step), names_(names), text_(text), called_(called) {}

    void run() {
        for (skip(); at_ < text_.size(); skip()) {
            begin_ = at_;
            statement();
            take(';');
        }
    }

private:
    Step &step_;
    const LineNames &names_;
    const std::string &text_, &called_;
    static constexpr const char *any_line =
        "a line: s(STAGE).PLACE(...), s.budget(...), s.layout(...), s.automatic(), s.clear(), s.clear_loops() or "
        "loops(NAME, FORM): NUMBER=VALUE";
    size_t at_ = 0, begin_ = 0;  ///< where the parser is, and where its statement begins

    std::string place(size_t at) const {
        const auto line = std::count(text_.begin(), text_.begin() + long(at), '\n');
        const size_t newline = at == 0 ? std::string::npos : text_.rfind('\n', at - 1);
        return fmt::format("{}:{}:{}", called_, line + 1, at - (newline == std::string::npos ? 0 : newline + 1) + 1);
    }
    [[noreturn]] void refuse(size_t at, const std::string &why) const { fail("{}: {}", place(at), why); }
    [[noreturn]] void expected(const std::string &what) const {
        const size_t end = std::min(text_.find_first_of(" \t\r\n;()", at_ + 1), text_.size());
        refuse(at_,
               fmt::format("found {}, expected {}",
                           at_ < text_.size() ? fmt::format("'{}'", text_.substr(at_, end - at_)) : "the end", what));
    }

    [[noreturn]] void refuse_name(const StageText &s) const {
        refuse(s.at, fmt::format("the model has no '{}'; {}", s.name, names_.advice(s)));
    }

    /// Puts the place of the statement before what `act` refuses.
    void of_this_line(auto &&act) const {
        try {
            act();
        } catch (const Error &e) {
            refuse(begin_, e.what());
        }
    }

    /// Skips white space and comments.
    void skip() {
        while (at_ < text_.size()) {
            if (text_[at_] == '#' || text_.compare(at_, 2, "//") == 0)
                at_ = std::min(text_.find('\n', at_), text_.size());
            else if (std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos)
                at_++;
            else
                return;
        }
    }
    bool take(char c) {
        skip();
        if (at_ >= text_.size() || text_[at_] != c) return false;
        at_++;
        return true;
    }
    void need(char c) {
        if (!take(c)) expected(fmt::format("'{}'", c));
    }
    /// Reads letters, digits and the other characters of names and numbers; empty: none is there.
    std::string word() {
        skip();
        const size_t from = at_;
        auto belongs = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || std::strchr("_.*-+", c); };
        while (at_ < text_.size() && text_[at_] && belongs(text_[at_])) at_++;
        return text_.substr(from, at_ - from);
    }
    std::string need_word(const std::string &what) {
        std::string w = word();
        if (w.empty()) expected(what);
        return w;
    }
    int number(const std::string &what) {
        skip();
        const size_t from = at_;
        const std::string w = need_word(what);
        int n = 0;
        const auto [end, error] = std::from_chars(w.data(), w.data() + w.size(), n);
        if (error != std::errc() || end != w.data() + w.size()) at_ = from, expected(what);
        return n;
    }

    StageText stage() {
        skip();
        StageText s{.at = at_};
        s.name = need_word("a stage: NAME, d(NAME), next(NAME), forward or d(net)");
        if ((s.name == "d" || s.name == "next") && take('(')) {
            s.kind = s.name == "d" ? StageText::derivative : StageText::next;
            skip();
            s.at = at_;
            s.name = need_word("a name");
            index(s);
            need(')');
            if (s.kind == StageText::derivative && s.name == "net") s.kind = StageText::gradients;
        } else if (s.name == "forward") {
            s.kind = StageText::pass;
        } else {
            index(s);
        }
        return s;
    }
    /// Reads "[2]", a layer's second call, if it is there.
    void index(StageText &s) {
        if (at_ >= text_.size() || text_[at_] != '[') return;
        if (const size_t end = text_.find("].", at_); end < text_.find(')', at_)) {  // a name in C++: blocks[0].up
            s.name += text_.substr(at_, end + 1 - at_);
            at_ = end + 1;
            s.name += word();
            refuse_name(s);
        }
        at_++;
        skip();
        const size_t from = at_;
        s.call = number("the number of a call, from 1");
        if (s.call < 1) at_ = from, expected("the number of a call, from 1");
        need(']');
    }
    std::vector<LineNames::Found> found(const StageText &s) const {
        std::vector<LineNames::Found> list = names_.find(s);
        if (list.empty()) refuse_name(s);
        for (const LineNames::Found &f : list) {
            if (!s.call) break;
            if (!f.stage.layer) refuse(s.at, fmt::format("'{}' is no layer, so it has no call [{}]", s.name, s.call));
            if (const int calls = names_.calls(f.stage.layer); s.call > calls)
                refuse(s.at, fmt::format("'{}' is called {}, so it has no call [{}]; the last is {}[{}]",
                                         f.stage.layer->path, calls == 1 ? "once" : fmt::format("{} times", calls),
                                         s.call, f.stage.layer->path, calls));
        }
        return list;
    }
    /// The place of each stage: the nth star of `text` is replaced by what the nth star of the stage's text stands for.
    std::vector<Stage> targets(const StageText &text, const std::vector<LineNames::Found> &stages) const {
        std::vector<Stage> list;
        for (const LineNames::Found &f : stages) {
            StageText s = text;
            size_t k = 0;
            for (size_t at = s.name.find('*'); at != std::string::npos; at = s.name.find('*', at)) {
                if (k == f.stars.size())
                    refuse(s.at, fmt::format("'{}' has more stars than the stage that is placed", text.name));
                s.name.replace(at, 1, f.stars[k]);
                at += f.stars[k++].size();
            }
            list.push_back(found(s)[0].stage);
        }
        return list;
    }

    void statement() {
        if (need_word(any_line) != "s") {
            const std::string w = text_.substr(begin_, at_ - begin_);
            if (w == "s.budget") return budget();
            if (w == "s.layout") return layout();
            if (w == "loops") return loops();
            if (w == "s.automatic") return need('('), need(')'), step_.automatic();
            if (w == "s.clear") return need('('), need(')'), step_.clear();
            if (w == "s.clear_loops") return need('('), need(')'), step_.clear_loops();
            static const std::vector<std::string> statements = {"s.budget", "s.layout", "s.automatic",
                                                                "s.clear",  "loops",    "s.clear_loops"};
            at_ = begin_, expected(any_line + did_you_mean(w, statements));
        }
        need('(');
        const StageText named = stage();
        need(')');
        skip();
        const size_t at = at_;
        const std::string how = word();
        static const std::vector<std::string> places = {".compute_root", ".compute_at", ".compute_with",
                                                        ".store_at",     ".dialect",    ".distribute"};
        if (std::ranges::find(places, how) == places.end()) {
            at_ = at;
            const std::span all_but_last(places.begin(), places.end() - 1);
            expected(
                fmt::format("{} or {}{}", fmt::join(all_but_last, ", "), places.back(), did_you_mean(how, places)));
        }
        need('(');
        const std::vector<LineNames::Found> stages = found(named);
        const std::vector<Stage> none(stages.size());
        // Adds the line for each stage, once the text is read to the end of the line.
        auto each = [&](const std::vector<Stage> &to, auto &&line) {
            need(')');
            const bool legal = where_legal();
            for (size_t i = 0; i < stages.size(); i++)
                of_this_line([&] {
                    Step::Line said = step_.line(stages[i].stage, place(begin_));
                    line(said, to[i]);
                    if (legal) said.where_legal();
                });
        };
        if (how == ".compute_root") {
            each(none, [](Step::Line &line, auto &) { line.compute_root(); });
        } else if (how == ".compute_at" || how == ".compute_with") {
            const StageText to = stage();
            const bool with = how == ".compute_with";
            const int rows = !with && take(',') ? number("a number of rows") : 0;
            each(targets(to, stages),
                 [&](Step::Line &line, const Stage &t) { with ? line.compute_with(t) : line.compute_at(t, rows); });
        } else if (how == ".store_at") {
            const StageText to = stage();
            if (names_.find(to).empty()) at_ = to.at, expected("forward");
            each(targets(to, stages), [&](Step::Line &line, const Stage &t) { line.store_at(t); });
        } else if (how == ".dialect") {
            const std::string name = need_word("a dialect's name");
            each(none, [&](Step::Line &line, auto &) { line.dialect({name.c_str()}); });
        } else {
            if (const StageText all = stage(); all.name != "workers") at_ = all.at, expected("workers");
            each(none, [](Step::Line &line, auto &) { line.distribute(workers); });
        }
    }
    /// Whether the line ends with .where_legal().
    bool where_legal() {
        skip();
        if (at_ >= text_.size() || text_[at_] != '.') return false;
        const size_t from = at_;
        if (word() != ".where_legal") at_ = from, expected(".where_legal() or the end of the line");
        need('('), need(')');
        return true;
    }

    void budget() {
        need('(');
        skip();
        const size_t from = at_;
        const std::optional<uint64_t> bytes = bytes_of(need_word("bytes"));
        if (!bytes) at_ = from, expected("bytes, such as 2350000000, 40MB or 1.5GiB");
        need(')');
        step_.budget(double(*bytes));
    }

    /// loops(NAME, FORM): rows=4 columns=48
    void loops() {
        need('(');
        skip();
        const size_t named = at_;
        const std::string pattern = need_word("the name of a layer, or of a parameter whose update it is");
        need(',');
        skip();
        const size_t from = at_;
        const std::optional<Form> form = form_of(need_word(any_form));
        if (!form) at_ = from, expected(any_form);
        need(')');
        need(':');
        const bool of_parameter = *form == Form::update || *form == Form::norm;
        const StageText owner{of_parameter ? StageText::next : StageText::value, pattern, named};
        const StageText other{of_parameter ? StageText::value : StageText::next, pattern, named};
        if (names_.find(owner).empty() && !names_.find(other).empty())
            refuse(named, fmt::format("'{}' is a {}, but {} is of a {}", pattern, of_parameter ? "layer" : "parameter",
                                      form_name(*form), of_parameter ? "parameter, as its weight" : "layer"));
        const std::vector<LineNames::Found> all = found(owner);
        for (bool first = true;; first = false) {
            skip();
            const size_t at = at_;
            const std::string name = first ? need_word("the name of a number of the loops, as rows") : word();
            if (!first && (name.empty() || !take('='))) return void(at_ = at);
            if (first) need('=');
            const int value = name == "automatic" ? automatic_value() : loop_number();
            for (const LineNames::Found &f : all)
                step_.tune({.layer = f.stage.layer,
                            .parameter = f.stage.parameter,
                            .form = *form,
                            .name = name,
                            .value = value,
                            .source = place(at)});
        }
    }
    int loop_number() {
        skip();
        const size_t from = at_;
        const bool loops = std::ranges::count(automatic_names(step_.machine), word()) > 0;
        at_ = from;
        return number(loops ? "a whole number; names of loops are for automatic=" : "a whole number");
    }
    /// A value of `automatic`: a number, or the name of the loops.
    int automatic_value() {
        skip();
        const size_t from = at_;
        const std::string name = word();
        const auto &names = automatic_names(step_.machine);
        const auto named = std::ranges::find(names, name);
        if (named != names.end()) return int(named - names.begin());
        at_ = from;
        Machine other = step_.machine;
        other.device = step_.machine.gpu() ? "cpu" : "opencl";
        const bool of_other = std::ranges::count(automatic_names(other), name) > 0;
        const std::string what =
            fmt::format("a whole number from 0 to {}, or {}{}", names.size() - 1, fmt::join(names, ", "),
                        !of_other             ? ""
                        : step_.machine.gpu() ? "; these loops are for a CPU"
                                              : "; these loops are for a device");
        const int value = number(what);
        if (value < 0 || value >= int(names.size())) at_ = from, expected(what);
        return value;
    }
    static constexpr const char *any_form = "forward, d_input, d_parameter, update or norm";

    void layout() {
        need('(');
        skip();
        const StageText named{.kind = StageText::next, .name = need_word("a parameter's name"), .at = at_};
        need(',');
        skip();
        const size_t from = at_;
        const std::string how = need_word("row_major() or panels(WIDTH, DIMENSION)");
        need('(');
        int width = 0, dim = 0;
        if (how == "panels") {
            width = number("a width");
            if (take(',')) dim = number("a dimension");
        } else if (how != "row_major") {
            at_ = from, expected("row_major() or panels(WIDTH, DIMENSION)");
        }
        need(')');
        need(')');
        Layout layout = row_major();
        if (how == "panels") of_this_line([&] { layout = panels(width, dim); });
        for (const LineNames::Found &f : found(named)) step_.layout(*f.stage.parameter, layout, place(begin_));
    }
};

}  // namespace

void add_lines(Step &step, Model &net, const std::string &text, const std::string &called) {
    const LineNames names(net);
    Parser(step, names, text, called).run();
}

}  // namespace cryolite
