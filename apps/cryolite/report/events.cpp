#include "apps/cryolite/report/events.h"

#include <cerrno>
#include <cmath>
#include <cstring>

#include <nlohmann/json.hpp>

#include "apps/cryolite/report/progress.h"
#include "runtime/collective/processes.h"
#include "runtime/system/streams.h"

namespace cryolite {

namespace {

/// JSON has no word for a number that is not finite, so null stands for it. The training loop stops at such a loss.
std::string number(double value, int digits) {
    return std::isfinite(value) ? fmt::format("{:.{}g}", value, digits) : "null";
}

/// The field "losses", after a comma; empty: there are none.
std::string losses_field(const std::vector<std::pair<std::string, double>> &list) {
    std::string losses;
    for (auto &[name, loss] : list)
        losses += fmt::format("{}{}:{}", losses.empty() ? "" : ",", nlohmann::json(name).dump(), number(loss, 9));
    return losses.empty() ? "" : fmt::format(R"(,"losses":{{{}}})", losses);
}

}  // namespace

std::string compile_json(int kernels, int cached, double seconds) {
    return fmt::format(R"({{"event":"compile","kernels":{},"cached":{},"seconds":{}}})", kernels, cached,
                       number(seconds, 4));
}

std::string to_json(const StepEvent &e) {
    const std::string scale = e.loss_scale > 0 ? fmt::format(R"(,"loss_scale":{})", number(e.loss_scale, 9)) : "";
    return fmt::format(R"({{"event":"step","step":{},"loss":{},"tok_s":{},"step_s":{},"lr":{},"withheld":{}{}{}}})",
                       e.step, number(e.loss, 9), number(e.tok_s, 6), number(e.step_s, 6), number(e.lr, 9), e.withheld,
                       losses_field(e.losses), scale);
}

std::string to_json(const EvalEvent &e) {
    std::string metrics;
    for (auto &[name, value] : {std::pair{"accuracy", e.accuracy}, {"rmse", e.rmse}, {"r2", e.r2}})
        if (value) metrics += fmt::format(R"(,"{}":{})", name, number(*value, 9));
    metrics += losses_field(e.losses);
    if (e.of_averages) metrics += R"(,"of_averages":true)";
    if (e.batches) metrics += fmt::format(R"(,"batches":{})", e.batches);
    return fmt::format(R"({{"event":"eval","step":{},"val_loss":{}{}}})", e.step, number(e.val_loss, 9), metrics);
}

std::string metric_words(const EvalEvent &e) {
    std::string words = e.accuracy ? fmt::format(", accuracy {:.2f} %", 100 * *e.accuracy)
                        : e.rmse   ? fmt::format(", RMSE {:.4g}", *e.rmse)
                                   : "";
    if (e.r2) words += fmt::format(", R2 {:.4f}", *e.r2);
    if (e.of_averages) words += ", of the weights' averages";
    if (e.batches) words += fmt::format(", of {} of {} batches", grouped(e.batches), grouped(e.of_batches));
    return words;
}

std::string to_json(const DoneEvent &e) {
    std::string waits = e.host_waits ? fmt::format(R"(,"host_waits":{})", *e.host_waits) : "";
    if (e.step_waits) waits += fmt::format(R"(,"step_waits":{})", *e.step_waits);
    return fmt::format(R"({{"event":"done","first_step_s":{},"best_s":{},"median_s":{},"tok_s":{},"best_tok_s":{},)"
                       R"("peak_rss_mb":{},"fraction_of_peak":{}{}}})",
                       number(e.first_step_s, 6), number(e.best_s, 6), number(e.median_s, 6), number(e.tok_s, 6),
                       number(e.best_tok_s, 6), e.peak_rss_mb, number(e.fraction_of_peak, 4), waits);
}

std::string peer_json(const std::string &name, double best_s, double median_s, double ratio, uint64_t peak_rss_mb) {
    return fmt::format(R"({{"event":"peer","name":{},"best_s":{},"median_s":{},"ratio":{},"peak_rss_mb":{}}})",
                       nlohmann::json(name).dump(), number(best_s, 6), number(median_s, 6), number(ratio, 4),
                       peak_rss_mb);
}

void print_line(const std::string &json) {
    static bool cut = false;  // the last write ended within a line
    if (known_processes().rank() > 0) return;
    const StreamResult r = write_stream(STDOUT_FILENO, (cut ? "\n" : "") + json + "\n");
    if (r.error == 0 || r.written > 0) cut = r.error != 0;
    if (r.error == 0) return;
    const std::string words = fmt::format("cannot write to the standard output: {}", std::strerror(r.error));
    if (r.error == EPIPE || r.error == EBADF) throw NoReader(words);
    throw Error(words);
}

}  // namespace cryolite
