#include "apps/cryolite/explain/loops/inner_loops.h"

#include <algorithm>
#include <charconv>
#include <map>

#include <fmt/format.h>

namespace cryolite {

namespace {

std::string_view trimmed(std::string_view text) {
    const size_t begin = text.find_first_not_of(" \t"), end = text.find_last_not_of(" \t");
    return begin == std::string_view::npos ? "" : text.substr(begin, end + 1 - begin);
}

bool hexadecimal(std::string_view text, unsigned long &value) {
    if (text.starts_with("0x")) text.remove_prefix(2);
    const auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
    return error == std::errc() && at == text.data() + text.size();
}

std::string_view mnemonic(std::string_view code) { return code.substr(0, code.find(' ')); }

/// "8(%rax,%rcx), %zmm1 {%k1}" -> {"8(%rax,%rcx)", "%zmm1 {%k1}"}
std::vector<std::string_view> operands(std::string_view code) {
    std::vector<std::string_view> list;
    const size_t space = code.find(' ');
    if (space == std::string_view::npos) return list;
    size_t begin = space + 1;
    int depth = 0;
    for (size_t i = begin; i <= code.size(); i++) {
        if (i < code.size() && code[i] == '(') depth++;
        if (i < code.size() && code[i] == ')') depth--;
        if (i < code.size() && (code[i] != ',' || depth)) continue;
        list.push_back(trimmed(code.substr(begin, i - begin)));
        begin = i + 1;
    }
    return list;
}

/// Number of a vector register, whatever its width; -1: it is something else.
int vector_register(std::string_view operand) {
    if (operand.size() < 5 || operand[0] != '%' || operand[1] < 'x' || operand[1] > 'z' || operand.substr(2, 2) != "mm")
        return -1;
    int number = -1;
    std::from_chars(operand.data() + 4, operand.data() + operand.size(), number);
    return number;
}

bool multiplies_and_adds(std::string_view code) {
    for (const char *name : {"vfmadd", "vfmsub", "vfnmadd", "vfnmsub", "vdpbf16ps"})
        if (code.starts_with(name)) return true;
    return false;
}

bool is_scalar(std::string_view name) { return name.ends_with("ss") || name.ends_with("sd"); }

/// Whether an operand is in memory at a fixed distance from the stack pointer or the frame pointer.
bool fixed_on_stack(std::string_view operand, bool rbp_is_frame) {
    const size_t open = operand.find('(');
    if (open == std::string_view::npos) return false;
    const std::string_view base = operand.substr(open, operand.find(')') + 1 - open);
    return base == "(%rsp)" || (rbp_is_frame && base == "(%rbp)");
}

}  // namespace

void ListingReader::line(std::string_view text) {
    if (text.ends_with(">:")) {
        end_function();
        const size_t open = text.find('<');
        function_ = text.substr(open + 1, text.size() - open - 3);
        return;
    }
    text = trimmed(text);
    const size_t colon = text.find(':');
    Instruction i;
    if (colon == std::string_view::npos || !hexadecimal(text.substr(0, colon), i.address)) return;
    text = text.substr(colon + 1);
    text = trimmed(text.substr(0, std::min(text.find('#'), text.find('<'))));
    for (char c : text)
        if (c != '\t' || !i.text.ends_with(' ')) i.text += c == '\t' ? ' ' : c;
    code_.push_back(std::move(i));
}

std::vector<SumLoop> ListingReader::loops() {
    end_function();
    return std::move(found_);
}

/// A loop is a jump back; an innermost loop holds no other.
void ListingReader::end_function() {
    std::map<unsigned long, size_t> at;
    for (size_t i = 0; i < code_.size(); i++) at[code_[i].address] = i;
    bool rbp_is_frame = false;
    std::vector<std::pair<size_t, size_t>> jumps;
    for (size_t i = 0; i < code_.size(); i++) {
        const std::string &text = code_[i].text;
        rbp_is_frame |= text == "movq %rsp, %rbp";
        unsigned long target = 0;
        if (!text.starts_with('j') || operands(text).empty() || !hexadecimal(operands(text)[0], target)) continue;
        if (auto to = at.find(target); to != at.end() && to->second <= i) jumps.emplace_back(to->second, i);
    }
    for (auto [begin, end] : jumps)
        if (std::ranges::none_of(jumps, [&](auto other) {
                return other != std::pair(begin, end) && other.first >= begin && other.second <= end;
            }))
            examine(begin, end, rbp_is_frame);
    code_.clear();
}

void ListingReader::examine(size_t begin, size_t end, bool rbp_is_frame) {
    SumLoop loop{.function = function_};
    bool written[32] = {}, carries = false;
    for (size_t i = begin; i <= end; i++) {
        const std::string &text = code_[i].text;
        const std::vector<std::string_view> words = operands(text);
        const int result = words.empty() ? -1 : vector_register(words.back());
        loop.code.push_back(text);
        for (std::string_view word : words) loop.spills += fixed_on_stack(word, rbp_is_frame);
        if (multiplies_and_adds(text)) {
            loop.fmas.push_back(text);
            loop.scalar += is_scalar(mnemonic(text));
            // The sum comes from the iteration before, as nothing in this one has written it.
            carries |= result >= 0 && !written[result];
        }
        if (result >= 0) written[result] = true;
    }
    if (carries) found_.push_back(std::move(loop));
}

std::vector<SumLoop> main_loops(const std::vector<SumLoop> &loops, const std::string &symbol) {
    std::vector<SumLoop> list;
    size_t most = 0;
    for (const SumLoop &l : loops)
        if (l.function == symbol || l.function.starts_with(symbol + "_")) {
            list.push_back(l);
            most = std::max(most, l.fmas.size());
        }
    std::erase_if(list, [&](const SumLoop &l) { return 2 * l.fmas.size() < most; });
    return list;
}

std::vector<std::string> shortened(const std::vector<std::string> &code) {
    std::vector<std::string> lines;
    for (size_t i = 0, next; i < code.size(); i = next) {
        for (next = i + 1; next < code.size() && mnemonic(code[next]) == mnemonic(code[i]); next++) {
        }
        lines.push_back(code[i]);
        if (next - i > 2) lines.push_back(fmt::format("... {} more {}", next - i - 1, mnemonic(code[i])));
        if (next - i == 2) lines.push_back(code[i + 1]);
    }
    return lines;
}

}  // namespace cryolite
