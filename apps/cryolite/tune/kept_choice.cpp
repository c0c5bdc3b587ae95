#include "apps/cryolite/tune/kept_choice.h"

namespace cryolite {

const std::string scratch_lines = "s.clear(); s.clear_loops()";

bool has_lines(const SearchChoice &c) { return !c.lines.empty() && c.lines != scratch_lines; }

bool gains_more(const SearchChoice &c, const SearchChoice &other) {
    return c.after * other.before < other.after * c.before;
}

KeptChoice::KeptChoice(SearchRecords &records, std::string step, bool same_bits)
    : records_(records), step_(std::move(step)), earlier_(records.choice(step_)) {
    if (earlier_ && !has_lines(*earlier_)) earlier_.reset();
    if (earlier_ && same_bits && !earlier_->same_bits) replaced_.swap(earlier_);
}

void KeptChoice::so_far(const SearchChoice &c) {
    if (!has_lines(c) || c.after >= c.before || (earlier_ && !gains_more(c, *earlier_))) return;
    records_.choose(step_, c);
    written_ = true;
}

SearchChoice KeptChoice::end(const SearchChoice &c, const std::function<bool(const SearchChoice &earlier)> &beats) {
    const bool stays = earlier_ && (!has_lines(c) || (c.lines != earlier_->lines && !beats(*earlier_)));
    if (!stays || written_) records_.choose(step_, stays ? *earlier_ : c);
    return stays ? *earlier_ : c;
}

}  // namespace cryolite
