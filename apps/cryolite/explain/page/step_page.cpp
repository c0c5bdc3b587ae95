#include "apps/cryolite/explain/page/step_page.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "apps/cryolite/explain/loops/inner_loops.h"
#include "apps/cryolite/explain/tables/merged_rows.h"
#include "apps/cryolite/explain/tables/stage_words.h"
#include "apps/cryolite/explain/page/step_pictures.h"
#include "bundle/block_names.h"
#include "bundle/entries.h"
#include "apps/cryolite/report/page.h"
#include "runtime/io/error.h"

namespace cryolite {

using nlohmann::json;

namespace {

std::string text_in(const json &j, const char *key) { return j.contains(key) ? j.at(key).get<std::string>() : ""; }

/// A line of a table: the calls of an entry that run the same kernel in equal blocks.
struct Row {
    KernelLine line;
    const json *call;
    bool of_blocks = false;  ///< it stands for several blocks, whose numbers are left out
};

std::string key_of(const json &call) {
    return text_in(call, "kernel") + " " + without_numbers(call.at("name").get<std::string>());
}

class StepPage {
public:
    explicit StepPage(const json &step) : step_(step) {
        for (const auto &[entry, calls] : step_.at("plans").items())
            if (entry == entry::forward || entry == entry::deferred || entry == entry::step ||
                (entry == entry::first && in_parts()))
                for (const json &c : calls) seconds_ += c.value("roof_s", 0.0);
        if (step_.at("plans").contains(entry::deferred) && step_["plans"].contains(entry::forward))
            for (const json &c : step_["plans"][entry::forward]) seconds_ -= c.value("roof_s", 0.0);
    }

    std::string html() const {
        std::string body = memory() + (has_roof() ? roofline() : "");
        for (auto entry : {entry::forward, entry::deferred, entry::first, entry::accumulate, entry::step, entry::flush})
            if (step_.at("plans").contains(entry) && !step_["plans"][entry].empty()) body += operations(entry);
        return html_page(text_in(step_, "title"), text_in(step_, "summary"), body + parameters() + loops());
    }

private:
    const json &step_;
    double seconds_ = 0;  ///< of a step, if every call ran at the roofline

    /// False for a device, whose speed is not known: then there is no roofline, and there are no shares.
    bool has_roof() const { return step_.contains("peak_gflops"); }
    /// Whether the backward pass runs for each part of the batch: it is then in the plan "first" instead of "step".
    bool in_parts() const { return step_.value("parts", 0) > 0; }

    std::vector<Row> rows_of(const std::string &entry) const {
        std::vector<Row> rows;
        for (const json &c : step_.at("plans").at(entry)) {
            auto at = std::ranges::find_if(rows, [&](const Row &r) { return key_of(*r.call) == key_of(c); });
            if (at == rows.end())
                at = rows.insert(rows.end(),
                                 {{without_numbers(c.at("name").get<std::string>()), c.at("flops"), c.at("bytes"), 0, 0,
                                   c.value("bound", "") == "memory", c.value("seconds", 0.0)},
                                  &c});
            at->line.calls++;
            at->of_blocks |= at->call->at("name") != c.at("name");
            at->line.share += seconds_ > 0 ? c.value("roof_s", 0.0) / seconds_ : 0;
        }
        for (Row &r : rows)
            if (!r.of_blocks) r.line.name = r.call->at("name");
        return rows;
    }

    std::string memory() const {
        const auto bytes = [&](const char *key) { return human_bytes(step_.at(key).get<uint64_t>()); };
        std::string roles;
        for (const auto &[role, n] : step_.at("memory").items())
            roles += fmt::format("{}{} {}", roles.empty() ? "" : ", ", role, human_bytes(n.get<uint64_t>()));
        return fmt::format(
            "<h2>Memory over the step</h2>\n<p>Activations share one arena of {}; without sharing they would take {}. "
            "Each rectangle is an activation: as wide as the calls that need it, as high as its bytes.</p>\n"
            "<figure>{}<figcaption><span class=\"key saved\"></span>saved for the backward pass"
            "<span class=\"key passing\"></span>of the forward pass alone<span class=\"key adjoint\"></span>of the "
            "backward pass. Point at one for its name.</figcaption></figure>\n<p class=\"dim\">All of a step: "
            "{}.</p>\n",
            bytes("arena_bytes"), bytes("arena_unshared_bytes"), memory_picture(step_.at("arena")), svg_text(roles));
    }

    std::string roofline() const {
        constexpr size_t numbered = 8;
        std::vector<KernelLine> lines;
        for (const char *entry :
             {step_["plans"].contains(entry::deferred) ? entry::deferred : entry::forward, entry::first, entry::step})
            if (step_["plans"].contains(entry) && (entry != std::string_view(entry::first) || in_parts()))
                for (const Row &r : rows_of(entry)) lines.push_back(r.line);
        std::ranges::stable_sort(lines, std::ranges::greater{}, &KernelLine::share);
        const double peak = step_.at("peak_gflops"), bandwidth = step_.at("bandwidth_gb_s");
        std::string list;
        for (size_t i = 0; i < std::min(numbered, lines.size()); i++) {
            const KernelLine &l = lines[i];
            const std::string reached = l.seconds > 0 ? fmt::format("{:.1f}", l.flops / l.seconds * 1e-9) : "not timed";
            const std::string of_roof =
                l.seconds > 0 ? fmt::format("{:.0f} %", 100 * l.share_of_roof(peak, bandwidth)) : "";
            list += fmt::format("<tr><td class=\"n\">{}</td><td><code>{}</code></td><td class=\"n\">{:.1f} %</td>"
                                "<td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>\n",
                                i + 1, svg_text(l.name), 100 * l.share, l.by_memory ? "memory" : "compute", reached,
                                of_roof);
        }
        const bool all_timed = std::ranges::all_of(lines, [](const KernelLine &l) { return l.seconds > 0; });
        return fmt::format(
            "<h2>What limits each kernel</h2>\n<p>The line is the roof of this machine: a kernel with many operations "
            "for each byte can be as fast as the cores compute, one with few as fast as memory delivers. A circle is "
            "how fast a kernel was. The larger it is, the more of the step the kernel takes, were every call as fast "
            "as the roof.</p>\n<figure>{}<figcaption><span class=\"key compute\"></span>limited by computing"
            "<span class=\"key memory\"></span>limited by memory{}</figcaption></figure>\n"
            "<div class=\"scroll\"><table><tr><th class=\"n\">no.</th><th>kernel</th><th class=\"n\">share</th>"
            "<th>bound</th><th class=\"n\">GFLOP/s</th><th class=\"n\">of its roof</th></tr>\n{}</table></div>\n",
            roofline_picture(lines, numbered, peak, bandwidth),
            all_timed ? ""
                      : "<span class=\"key hollow\"></span>not timed: drawn on the roof; <code>bench --profile</code> "
                        "and <code>tune</code> time kernels",
            list);
    }

    std::string operations(const char *entry) const {
        const std::vector<Row> rows = rows_of(entry);
        double most = 1e-9;
        for (const Row &r : rows) most = std::max(most, r.line.share);
        std::string table;
        for (const Row &r : rows) {
            const KernelLine &l = r.line;
            table += fmt::format(
                "<tr><td class=\"n\">{}</td><td><code>{}</code>{}</td><td>{}</td><td class=\"n\">{:.2f}</td>"
                "<td class=\"n\">{:.3f}</td><td class=\"n\">{:.1f}</td>{}</tr>\n",
                l.calls, svg_text(l.name), stages(*r.call, r.of_blocks), svg_text(text_in(*r.call, "loops")),
                1e-6 * l.flops, 1e-6 * l.bytes, l.bytes > 0 ? l.flops / l.bytes : 0, has_roof() ? limit(l, most) : "");
        }
        return fmt::format(
            "<h2>Operations: {}</h2>\n<p class=\"dim\">{} kernel calls; those of equal blocks are one line. MFLOP and "
            "MB are of one call{}. compute_at: within those loops and never stored; "
            "compute_with: stored in the same loops.</p>\n<div class=\"scroll\"><table><tr><th class=\"n\">calls"
            "</th><th>operations</th><th>loops</th><th class=\"n\">MFLOP</th><th class=\"n\">MB</th><th class=\"n\">"
            "FLOP/byte</th>{}</tr>\n{}</table></div>\n",
            entry, step_["plans"][entry].size(), has_roof() ? ", the share is of the step" : "",
            has_roof() ? "<th class=\"n\">share</th><th></th><th>bound</th>" : "", table);
    }
    static std::string limit(const KernelLine &l, double most) {
        const char *by = l.by_memory ? "memory" : "compute";
        return fmt::format("<td class=\"n\">{:.1f} %</td><td class=\"bar\"><div class=\"{}\" style=\"width: {:.1f}%\">"
                           "</div></td><td>{}</td>",
                           100 * l.share, by, 100 * l.share / most, by);
    }

    /// The stages that a kernel computes, where each is computed, and why.
    static std::string stages(const json &call, bool of_blocks) {
        std::string out;
        const auto shown = [&](const std::string &text) { return svg_text(of_blocks ? without_numbers(text) : text); };
        const json &list = call.at("stages");
        for (const json &s : list) {
            const std::string where = text_in(s, "placed"), why = text_in(s, "why");
            if (list.size() == 1 && where == "root" && why.empty()) continue;
            out += fmt::format("<div class=\"stages\"><code>{}</code>: {}{}</div>", shown(text_in(s, "name")),
                               shown(placed_words(where)), why.empty() ? "" : " (" + shown(why) + ")");
        }
        if (const std::string why = text_in(call, "why"); !why.empty() && why != "the default")
            out +=
                fmt::format("<div class=\"stages\">by {}: {}</div>", svg_text(text_in(call, "dialect")), svg_text(why));
        return out;
    }

    std::string parameters() const {
        const json &all = step_.at("parameters");
        std::vector<BlockRow> rows;
        for (const json &p : all) {
            json columns = p;
            columns.erase("name");
            rows.push_back({p.at("name"), columns.dump()});
        }
        std::string table;
        for (const MergedRow &m : merged_rows(rows)) {
            const json &p = all[m.first];
            const std::string why = text_in(p, "why");
            std::string shape;
            for (int e : p.at("shape")) shape += fmt::format("{}{}", shape.empty() ? "" : " x ", e);
            table += fmt::format("<tr><td class=\"n\">{}</td><td><code>{}</code></td><td class=\"n\">{}</td><td>{}</td>"
                                 "<td>{}</td><td>{}</td><td class=\"dim\">{}</td></tr>\n",
                                 m.count, svg_text(m.name), shape, svg_text(text_in(p, "type")),
                                 svg_text(text_in(p, "layout")), svg_text(text_in(p, "update")),
                                 svg_text(m.count > 1 ? without_numbers(why) : why));
        }
        return "<h2>Parameters, and where each is updated</h2>\n<div class=\"scroll\"><table><tr><th class=\"n\">of "
               "them</th><th>parameter</th><th class=\"n\">shape</th><th>type</th><th>layout</th><th>update</th><th>"
               "why</th></tr>\n" +
               table + "</table></div>\n";
    }

    /// The inner loops of every kernel, each kernel once.
    std::string loops() const {
        std::string out;
        std::vector<std::string> seen;
        for (const auto &[entry, calls] : step_.at("plans").items())
            for (const json &c : calls) {
                const std::string symbol = text_in(c, "kernel");
                if (!c.contains("inner_loops") || c["inner_loops"].is_null() || std::ranges::count(seen, symbol))
                    continue;
                seen.push_back(symbol);
                for (const json &l : c["inner_loops"]) out += loop(without_numbers(c.at("name").get<std::string>()), l);
            }
        const char *none = "<p class=\"dim\">Not known here: the package llvm-19 has the tools that show them.</p>\n";
        return "<h2>Inner loops</h2>\n<p class=\"dim\">Where a kernel's products are summed, and how long one turn "
               "takes "
               "beside what the ports of its multiply-adds allow, as llvm-mca predicts it.</p>\n" +
               (out.empty() ? none : out);
    }
    static std::string loop(const std::string &name, const json &l) {
        std::string code;
        for (const std::string &line : shortened(l.at("code").get<std::vector<std::string>>())) code += line + "\n";
        return fmt::format("<details><summary><code>{}</code>: {} multiply-adds in {} instructions, {} spills; {}: "
                           "{:.1f} cycles, {:.0f} % of its ports</summary><pre>{}</pre></details>\n",
                           svg_text(name), l.at("fmas").get<int>(), l.at("code").size(), l.at("spills").get<int>(),
                           svg_text(text_in(l, "processor")), l.at("cycles").get<double>(),
                           100 * l.at("share_of_fma_ports").get<double>(), svg_text(code));
    }
};

}  // namespace

std::string step_page(const json &step) { return StepPage(step).html(); }

}  // namespace cryolite
