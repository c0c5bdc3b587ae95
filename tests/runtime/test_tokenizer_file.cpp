// tokenizer.json of byte-level tokenizers: the tokens of PyPI's `tokenizers` (tests/data/make_tokenizers.py), and what
// is refused.

#include "runtime/tokenizer/tokenizer_file.h"

#include <nlohmann/json.hpp>

#include "tests/runtime/scratch.h"

namespace cryolite::test {

namespace {

using nlohmann::json;

const json &goldens() {
    static const json all = json::parse(read_file(source_file("tests/data/tokenizers.json")));
    return all;
}

/// What is said of a file that differs at one place.
std::string refusal(const char *which, const char *place, const json &value) {
    json file = goldens()[which]["tokenizer"];
    file[json::json_pointer(place)] = value;
    const Scratch scratch;
    return error_of([&] { tokenizer_of_file(write_plainly(scratch / "tokenizer.json", file.dump())); });
}

}  // namespace

TEST_CASE("tokenizer.json: SmolLM2's and Qwen's splitting, and a vocabulary that lacks bytes, on 504 hard strings") {
    const json &texts = goldens()["texts"];
    REQUIRE(texts.size() == 504);
    for (const char *which : {"smollm2", "qwen", "lacking"}) {
        CAPTURE(which);
        const json &golden = goldens()[which];
        const Scratch scratch;
        const fs::path path = write_plainly(scratch / "tokenizer.json", golden["tokenizer"].dump());
        const auto tokenizer = tokenizer_of_file(path);
        const auto tokens = golden["tokens"].get<std::vector<int>>();
        size_t begin = 0;
        for (size_t i = 0; i < texts.size(); i++) {
            const auto text = texts[i].get<std::string>();
            CAPTURE(text);
            const auto end = golden["ends"][i].get<size_t>();
            const std::vector<int> expected(tokens.begin() + long(begin), tokens.begin() + long(end));
            CHECK(tokenizer->encode(text) == expected);
            // Qwen's brings a text to NFC: what comes back is that, and has the same tokens again.
            const std::string back = tokenizer->decode(expected);
            if (std::string(which) == "smollm2") CHECK(back == text);
            if (std::string(which) == "qwen") CHECK(tokenizer->encode(back) == expected);
            begin = end;
        }
        const auto again = tokenizer_from_json(tokenizer->to_json(), "vocab.json");
        CHECK(again->size() == tokenizer->size());
        CHECK(again->encode("don't 12<|endoftext|>") == tokenizer->encode("don't 12<|endoftext|>"));
        CHECK_ERROR(tokenizer->encode("ab \xff"), "not UTF-8 text: byte 0xff at offset 3");
    }
}

TEST_CASE("tokenizer.json: what would change the tokens and is not supported is named") {
    const std::vector<std::tuple<const char *, json, const char *>> cases = {
        {"/normalizer", {{"type", "Lowercase"}}, "normalizer.type is \"Lowercase\", expected NFC or none"},
        {"/pre_tokenizer", {{"type", "Metaspace"}}, "pre_tokenizer.type is \"Metaspace\", expected ByteLevel"},
        {"/pre_tokenizer", {{"type", "Digits"}}, "pre_tokenizer has no ByteLevel"},
        {"/pre_tokenizer/pretokenizers/0/behavior", "Removed",
         "behavior is \"Removed\", which is not supported; expected \"Isolated\""},
        {"/pre_tokenizer/pretokenizers/0/pattern/Regex", "a(", "is no regular expression"},
        {"/pre_tokenizer/pretokenizers/1/add_prefix_space", true, "add_prefix_space is true, which is not supported"},
        {"/model/type", "Unigram", "model.type is \"Unigram\", expected BPE"},
        {"/model/byte_fallback", true, "model.byte_fallback is true"},
        {"/model/dropout", 0.1, "model.dropout is 0.1"},
        {"/model/merges/0", "zzz zzz", "model.merges[0]: \"zzz\" is not in model.vocab"},
        {"/model/vocab/A", 5000, "no token has the number"},
        {"/model/vocab/<|endoftext|>", 5, "has the number 5, but 700 among added_tokens"},
        {"/added_tokens/0/lstrip", true, "added_tokens: \"<|endoftext|>\".lstrip is true"},
        {"/model/vocab/A", 4294967301, "\"A\" has the number 4294967301, expected a whole one from 0 to"},
        {"/model/vocab/A", 5.5, "\"A\" has the number 5.5, expected a whole one"},
        {"/added_tokens/0/id", true, "\"<|endoftext|>\" has the number true"},
        {"/added_tokens/0/normalized", true, "added_tokens: \"<|endoftext|>\".normalized is true"},  // there is an NFC
        {"/added_tokens/0/content", 5, "added_tokens: content is 5, expected a text"},
        {"/model/merges/0", {"a", 5}, "model.merges[0] is 5, expected a text"},
        {"/model/merges", "a b", "model.merges is \"a b\", expected a list"},
        {"/model/vocab", {"a"}, "model.vocab is [\"a\"], expected an object"},
        {"/model/ignore_merges", 1, "model.ignore_merges is 1, expected true or false"},
        {"/pre_tokenizer", nullptr, "pre_tokenizer has no ByteLevel"},
        {"/model/vocab", nullptr, "model.vocab is null, expected an object"}};
    for (const auto &[place, value, words] : cases) {
        CAPTURE(place);
        const std::string said = refusal("qwen", place, value);
        CAPTURE(said);
        CHECK(contains(said, words));
        CHECK(contains(said, "tokenizer.json: not a tokenizer.json"));
    }
    const Scratch scratch;
    CHECK_ERROR(tokenizer_of_file(write_plainly(scratch / "t.json", "{")),
                "t.json: not a tokenizer.json: copy or download it again");
    CHECK_ERROR(tokenizer_of_file(write_plainly(scratch / "t.json", "{}")), "the file has no \"model\"");
}

TEST_CASE("tokenizer.json: patterns that PCRE2 and Oniguruma read differently are refused") {
    const char *place = "/pre_tokenizer/pretokenizers/0/pattern/Regex";
    for (const auto &[pattern, words] : {std::pair{R"(\w+|\W)", "has \\w, which is not supported"},
                                         {R"([\h]+)", "has \\h, which is not supported"},
                                         {R"(\p{N}{1,3}+|.)", "has {1,3}+, which is not supported"},
                                         {"a{2}?|.", "has {2}?, which is not supported"},
                                         {"a{,2}b", "has {,2}, which is not supported"},
                                         {R"([\p{L}&&\p{Lu}]+)", "has && in a set"},
                                         {"x(?i)b|c", "has (?i) within it"},
                                         {R"(a\Kb)", "has \\K, which is not supported"},
                                         {"(?m:.)+", "has the option m in a group"},
                                         {"x*", "also matches no letters at all"}}) {
        CAPTURE(pattern);
        CHECK(contains(refusal("qwen", place, pattern), words));
    }
    for (const char *pattern : {"(?i)a|b", R"(\p{N}{1,3}|\x{20}+|a{2}|b{1,2}?|[&{]+|.)", R"([^\s\p{L}$^]+)",
                                "(?i:'s|'t)|.", R"(\^|\$|.)", R"(a(?!b)|(?<=c)d|(?-i:e)|.)"})
        CHECK(refusal("qwen", place, pattern) == "");
}

TEST_CASE("tokenizer.json: ^ and $ stand for the ends of every line") {
    json file = goldens()["qwen"]["tokenizer"];
    auto parts = [&](const char *pattern, const std::string &text) {
        file["/pre_tokenizer/pretokenizers/0/pattern/Regex"_json_pointer] = pattern;
        file["model"]["merges"] = json::array(), file["model"]["ignore_merges"] = true;
        const auto tokenizer = tokenizer_of_members(file);
        std::vector<std::string> words;
        for (const int token : tokenizer->encode(text)) words.emplace_back(tokenizer->piece(token));
        return words;
    };
    // "the" is a token, and stays whole where a part is "the".
    CHECK(parts("^the", "the\nthe") == std::vector<std::string>{"the", "\n", "the"});
    CHECK(parts("^thea", "the\nthe").size() == 7);
    CHECK(parts("the$", "the\nthe") == std::vector<std::string>{"the", "\n", "the"});
}

TEST_CASE("tokenizer.json: long matches of repeated groups need no large stack") {
    json file = goldens()["qwen"]["tokenizer"];
    file["/pre_tokenizer/pretokenizers/0/pattern/Regex"_json_pointer] = R"((?:\p{L}\p{M}*)+|\P{L})";
    const std::string text(20000, 'a');
    const auto tokenizer = tokenizer_of_members(file);
    CHECK(tokenizer->decode(tokenizer->encode(text)) == text);
}

TEST_CASE("tokenizer.json: NFC keeps U+11A7, which stands before the final consonants of Hangul") {
    const auto tokenizer = tokenizer_of_members(goldens()["qwen"]["tokenizer"]);
    for (const char *text : {"\uac00\u11a7", "\u11a7", "\u11a7\u0301", "\uac00\u11a7\u11a7x"})
        CHECK(tokenizer->decode(tokenizer->encode(text)) == text);
    CHECK(tokenizer->decode(tokenizer->encode("\u1100\u1161\u11a7\u1100\u1161\u11a8")) == "\uac00\u11a7\uac01");
}

TEST_CASE("tokenizer.json: added tokens that a normalizer may change are found where there is none, after others") {
    json file = goldens()["smollm2"]["tokenizer"];
    const int first = tokenizer_of_members(file)->size();
    int next = first;
    for (const auto &[content, normalized] : {std::pair{"<a|>", true}, {"<a|><b>", true}, {"><b", false}})
        file["added_tokens"].push_back(
            {{"id", next++}, {"content", content}, {"special", false}, {"normalized", normalized}});
    // PyPI's `tokenizers` looks for those that are not normalized first, in the whole text.
    const auto tokenizer = tokenizer_of_members(file);
    CHECK(tokenizer->encode("<a|>") == std::vector<int>{first});
    CHECK(tokenizer->encode("<a|><b>")[tokenizer->encode("<a|").size()] == first + 2);
}

TEST_CASE("tokenizer.json: of merges of the same tokens the last one counts, as in PyPI's `tokenizers`") {
    json file = goldens()["smollm2"]["tokenizer"];
    file["model"]["vocab"] = json::object();
    file["added_tokens"] = json::array();
    for (const char *token : {"a", "b", "c", "ab", "bc"})
        file["model"]["vocab"][token] = int(file["model"]["vocab"].size());
    file["model"]["merges"] = {"a b", "b c"};
    CHECK(tokenizer_of_members(file)->encode("abc") == std::vector<int>{3, 2});
    file["model"]["merges"] = {"a b", "b c", "a b"};
    CHECK(tokenizer_of_members(file)->encode("abc") == std::vector<int>{0, 4});
}

TEST_CASE("tokenizer.json: deeply nested files are refused") {
    const Scratch scratch;
    std::string text;
    for (int i = 0; i < 50000; i++) text += R"({"normalizer":)";
    CHECK_ERROR(tokenizer_of_file(write_plainly(scratch / "t.json", text)), "t.json: is nested deeper than 100 levels");
}

TEST_CASE("tokenizer.json: bytes without a token are left out, and said once") {
    const auto tokenizer = tokenizer_of_members(goldens()["lacking"]["tokenizer"]);
    std::string said = stderr_of([&] { tokenizer->encode("the cat"); });
    CHECK(said == "");
    said = stderr_of([&] { CHECK(tokenizer->decode(tokenizer->encode("a\xc3\xa9z")) == "az"); });
    CHECK(contains(said, "warning: the tokenizer has no token for the byte 0xc3, which is left out of the tokens"));
    CHECK(contains(said, "; 199 of the 256 bytes have none"));
    CHECK(stderr_of([&] { tokenizer->encode("\xc3\xa9"); }) == "");
}

TEST_CASE("tokenizer.json: a piece that is a token stays one where merges are ignored") {
    json file = goldens()["smollm2"]["tokenizer"];
    file["model"]["merges"] = json::array();
    const auto merged = tokenizer_of_members(file);
    file["model"]["ignore_merges"] = true;
    const auto whole = tokenizer_of_members(file);
    CHECK(merged->encode("the").size() == 3);
    CHECK(whole->encode("the").size() == 1);
    CHECK(whole->decode(whole->encode("the thx")) == "the thx");
}

}  // namespace cryolite::test
