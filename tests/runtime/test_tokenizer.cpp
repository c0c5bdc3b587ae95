#include "runtime/tokenizer/gpt2_tokenizer.h"
#include "runtime/tokenizer/utf8.h"
#include "tests/runtime/scratch.h"

#include <nlohmann/json.hpp>

#include <chrono>

namespace cryolite::test {

namespace {

const BpeTokenizer &gpt2() {
    static const auto instance =
        BpeTokenizer::from_merges(read_file(source_file("apps/gpt/data/vocab.bpe")), "vocab.bpe");
    return *instance;
}

std::vector<std::string> pretokens(std::string_view text) {
    std::vector<std::string> pieces;
    for_each_pretoken(text, 0, [&](std::string_view piece) { pieces.emplace_back(piece); });
    return pieces;
}

double seconds_of(const std::function<void()> &action) {
    const auto start = std::chrono::steady_clock::now();
    action();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

TEST_CASE("utf8: decodes what is valid, refuses the rest") {
    for (const auto &[text, value] :
         std::initializer_list<std::pair<const char *, uint32_t>>{{"a", 'a'},
                                                                  {"\xc2\x80", 0x80},
                                                                  {"\xdf\xbf", 0x7ff},
                                                                  {"\xe0\xa0\x80", 0x800},
                                                                  {"\xed\x9f\xbf", 0xd7ff},
                                                                  {"\xee\x80\x80", 0xe000},
                                                                  {"\xef\xbf\xbf", 0xffff},
                                                                  {"\xf0\x90\x80\x80", 0x10000},
                                                                  {"\xf4\x8f\xbf\xbf", 0x10ffff}}) {
        const CodePoint c = code_point_at(text, 0);
        CHECK(c.value == value);
        CHECK(static_cast<size_t>(c.length) == std::string_view(text).size());
        std::string back;
        append_utf8(back, value);
        CHECK(back == text);
    }
    for (const char *bad : {"\x80", "\xc0\x80", "\xc1\xbf", "\xc3", "\xc3z", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xe2\x82",
                            "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff"}) {
        CAPTURE(shown(bad));
        CHECK(code_point_at(bad, 0).length == 0);
    }
    CHECK(code_point_at("", 0).length == 0);
}

TEST_CASE("char tokenizer: as Python's sorted(set(text))") {
    const std::string text = "hello, \xc3\xa9t\xc3\xa9 \xf0\x9f\x99\x82\n";  // été and an emoji
    const auto tokenizer = CharTokenizer::of(text, "text");
    // sorted(set(text)) == ['\n', ' ', ',', 'e', 'h', 'l', 'o', 't', 'é', '🙂']
    CHECK(tokenizer->size() == 10);
    CHECK(tokenizer->encode(text) == std::vector<int>{4, 3, 5, 5, 6, 2, 1, 8, 7, 8, 1, 9, 0});
    CHECK(tokenizer->decode(tokenizer->encode(text)) == text);
    CHECK(tokenizer->piece(8) == "\xc3\xa9");
    CHECK_ERROR(tokenizer->encode("hex"), "character U+0078 (\"x\") at offset 2 is not one of the 10");
    CHECK_ERROR(tokenizer->encode("he\xff"), "not UTF-8 text: byte 0xff at offset 2");
    CHECK_ERROR(tokenizer->decode(std::vector<int>{3, 10}), "token 10 is not in the vocabulary of 10");
    CHECK_ERROR(tokenizer->decode(std::vector<int>{-1}), "token -1 is not");
    CHECK_ERROR(CharTokenizer::of("ab\xc3(", "my.txt"), "my.txt: not UTF-8 text: byte 0xc3 at offset 2");
    CHECK_ERROR(CharTokenizer::of("", "my.txt"), "my.txt: no characters");
    CHECK_ERROR(CharTokenizer::of("ab", "my.txt")->encode("abc"),
                "U+0063 (\"c\") at offset 2 is not one of the 2 of the vocabulary of my.txt");
    CHECK_ERROR(CharTokenizer({'b', 'a'}), "must be sorted");

    const auto shakespeare = CharTokenizer::of(read_file(source_file("apps/gpt/data/tinyshakespeare.txt")), "");
    CHECK(shakespeare->size() == 65);
    CHECK(shakespeare->encode("\n az") == std::vector<int>{0, 1, 39, 64});
}

TEST_CASE("gpt2 tokenizer: tiktoken's ids") {
    CHECK(gpt2().size() == 50257);
    CHECK(gpt2().end_of_text() == 50256);
    CHECK(gpt2().piece(50256) == "<|endoftext|>");
    const auto goldens = nlohmann::json::parse(read_file(source_file("tests/data/gpt2_bpe.json")));
    REQUIRE(goldens.size() == 20);
    for (const auto &golden : goldens) {
        const auto text = golden["text"].get<std::string>();
        CAPTURE(text);
        CHECK(gpt2().encode(text) == golden["ids"].get<std::vector<int>>());
        CHECK(gpt2().decode(golden["ids"].get<std::vector<int>>()) == text);
    }
    CHECK(gpt2().encode("<|endoftext|>").size() == 7);
    CHECK_ERROR(gpt2().encode("ab \xff"), "not UTF-8 text: byte 0xff at offset 3");
    CHECK_ERROR(gpt2().decode(std::vector<int>{50257}), "token 50257 is not in the vocabulary of 50257");
}

TEST_CASE("gpt2 tokenizer: splits as its pattern does") {
    using Pieces = std::vector<std::string>;
    CHECK(pretokens("") == Pieces{});
    CHECK(pretokens("I'll don't 'Tis'll'") == Pieces{"I", "'ll", " don", "'t", " '", "Tis", "'ll", "'"});
    CHECK(pretokens("a  b   c") == Pieces{"a", " ", " b", "  ", " c"});
    CHECK(pretokens("a \n b\n\nc\n") == Pieces{"a", " \n", " b", "\n", "\n", "c", "\n"});
    CHECK(pretokens("a \t\n") == Pieces{"a", " \t\n"});
    CHECK(pretokens("x12.5%! y") == Pieces{"x", "12", ".", "5", "%!", " y"});
    CHECK(pretokens(" ") == Pieces{" "});
    CHECK(pretokens("\x1c"
                    "a") == Pieces{"\x1c", "a"});  // not White_Space, though Python's isspace
    CHECK(pretokens("a\xc2\xa0\xc2\xa0"
                    "b") == Pieces{"a", "\xc2\xa0", "\xc2\xa0", "b"});
}

TEST_CASE("gpt2 tokenizer: is fast, on long pieces too") {
    const std::string merges = read_file(source_file("apps/gpt/data/vocab.bpe"));
    const std::string text = read_file(source_file("apps/gpt/data/tinyshakespeare.txt"));
    std::vector<int> tokens;
    const double loading = seconds_of([&] { BpeTokenizer::from_merges(merges, ""); });
    const double encoding = seconds_of([&] { tokens = gpt2().encode(text); });
    const std::string one_piece(1 << 20, 'a');
    const double piece = seconds_of([&] { CHECK(gpt2().encode(one_piece).size() == one_piece.size() / 4); });
    MESSAGE("load " << loading << " s, encode 1.1 MB " << encoding << " s, 1 MiB of one letter " << piece << " s");
    CHECK(gpt2().decode(tokens) == text);
    CHECK(loading < 1);  // far above what it takes, for slow and sanitized builds
    CHECK(encoding < 5);
    CHECK(piece < 10);
}

TEST_CASE("gpt2 tokenizer: a damaged merges file is refused with its line") {
    CHECK_ERROR(BpeTokenizer::from_merges("#version: 0.2\nt h\nth q e\n", "v.bpe"),
                "v.bpe: line 3: \"th q e\" is not a pair");
    CHECK_ERROR(BpeTokenizer::from_merges("t h\nthe x\n", "v.bpe"), "v.bpe: line 2: \"the x\"");
    CHECK_ERROR(BpeTokenizer::from_merges("t h\nt h\n", "v.bpe"), "line 2: \"t h\" makes a token that exists already");
    CHECK_ERROR(BpeTokenizer::from_merges("th\n", "v.bpe"), "line 1");
    CHECK_ERROR(BpeTokenizer::from_merges("\xff \xff\n", "v.bpe"), "line 1");
    CHECK_ERROR(BpeTokenizer::from_merges("", "v.bpe"), "v.bpe: no merges");
    const auto small = BpeTokenizer::from_merges("t h\r\nth e\r\n", "v.bpe");
    CHECK(small->encode("the") == std::vector<int>{257});
    CHECK(small->size() == 259);
}

TEST_CASE("tokenizers: a run's vocab.json gives the same tokenizer") {
    Scratch scratch;
    const fs::path path = scratch / "vocab.json";
    const std::string text = "Caf\xc3\xa9 \"x\"\\ 1";
    write_file_atomic(path, CharTokenizer::of(text, "")->to_json());
    auto back = load_tokenizer(path);
    CHECK(back->name() == "char");
    CHECK(back->decode(back->encode(text)) == text);
    write_file_atomic(path, gpt2().to_json());
    back = load_tokenizer(path);
    CHECK(back->name() == "gpt2");
    CHECK(back->size() == 50257);
    CHECK(back->encode("Hello, world!") == gpt2().encode("Hello, world!"));
    for (const char *bad : {"", "[]", "{}", R"({"type":1})", R"({"type":"x"})", R"({"type":"char"})",
                            R"({"type":"char","characters":["ab"]})", R"({"type":"char","characters":[]})",
                            R"({"type":"gpt2","merges":[1]})", R"({"type":"gpt2","merges":["zz y"]})"})
        CHECK_ERROR(load_tokenizer(write_plainly(path, bad)), "vocab.json: not a vocabulary of cryolite: ");
}

}  // namespace cryolite::test
