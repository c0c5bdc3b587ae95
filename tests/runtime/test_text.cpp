#include "runtime/tokenizer/gpt2_tokenizer.h"
#include "runtime/data/loader.h"
#include "runtime/data/shard.h"
#include "runtime/data/text.h"
#include "tests/runtime/scratch.h"

#include <cstring>

namespace cryolite::test {

namespace {

std::string shard_of(std::vector<int32_t> header, const std::vector<uint16_t> &tokens) {
    header.resize(256);
    std::string bytes(1024 + tokens.size() * 2, '\0');
    std::memcpy(bytes.data(), header.data(), 1024);
    if (!tokens.empty()) std::memcpy(bytes.data() + 1024, tokens.data(), tokens.size() * 2);
    return bytes;
}

}  // namespace

TEST_CASE("text: Tiny Shakespeare by characters, as PyTorch scripts split it") {
    const fs::path path = source_file("apps/gpt/data/tinyshakespeare.txt");
    const TextCorpus corpus = load_text({.data = path, .context = 64});
    CHECK(corpus.tokenizer->size() == 65);
    CHECK(corpus.train.size() == 1003854);
    CHECK(corpus.validation.size() == 111540);
    CHECK(corpus.digest.substr(0, 8) == "86c4e6aa");
    std::vector<int32_t> few(6);
    corpus.validation.copy(0, few);
    CHECK(corpus.tokenizer->decode(few) == "?\n\nGRE");
}

TEST_CASE("text: Tiny Shakespeare by GPT-2's tokens, split by bytes") {
    const auto tokenizer = BpeTokenizer::from_merges(read_file(source_file("apps/gpt/data/vocab.bpe")), "");
    const TextCorpus corpus =
        load_text({.data = source_file("apps/gpt/data/tinyshakespeare.txt"), .tokenizer = tokenizer, .context = 1024});
    CHECK(corpus.train.size() == 301966);
    CHECK(corpus.validation.size() == 36059);
}

TEST_CASE("text: splits fall between characters") {
    const std::string text = "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9";  // 7 characters, 14 bytes
    CHECK(split_by_characters(text) == 12);                                               // int(6.3) = 6
    CHECK(split_by_bytes(text) == 12);                                                    // int(12.6) = 12
    CHECK(split_by_bytes("0123456789\xe2\x82\xac") == 10);  // int(11.7) = 11, inside the euro sign
    CHECK(split_by_characters("") == 0);
    CHECK(split_by_bytes("") == 0);
    CHECK(split_by_characters("a") == 0);
}

TEST_CASE("text: a validation file of its own") {
    Scratch scratch;
    const fs::path data = write_plainly(scratch / "a.txt", "abcabcabc");
    const fs::path validation = write_plainly(scratch / "b.txt", "cab");
    const TextCorpus corpus = load_text({.data = data, .validation = validation, .context = 2});
    CHECK(corpus.train.size() == 9);
    CHECK(corpus.validation.size() == 3);
    CHECK_ERROR(load_text({.data = data, .validation = validation, .context = 3}),
                "b.txt has 3 tokens, but context 3 needs at least 4");
    write_plainly(validation, "cabx");
    CHECK_ERROR(load_text({.data = data, .validation = validation}),
                "b.txt: character U+0078 (\"x\") at offset 3 is not one of the 3");
}

TEST_CASE("text: bad files are refused by name and offset") {
    Scratch scratch;
    const fs::path path = scratch / "my.txt";
    CHECK_ERROR(load_text({.data = path}), "my.txt: No such file");
    CHECK_ERROR(load_text({.data = write_plainly(path, "")}), "my.txt: the file is empty");
    CHECK_ERROR(load_text({.data = write_plainly(path, std::string("ab\0c", 4))}),
                "my.txt: a binary file (a zero byte at offset 2)");
    CHECK_ERROR(load_text({.data = write_plainly(path, "abc\xff")}), "my.txt: not UTF-8 text: byte 0xff at offset 3");
    CHECK_ERROR(load_text({.data = scratch.path}), "it is a folder");
    write_plainly(path, std::string(100, 'a'));
    CHECK_NOTHROW(load_text({.data = path, .context = 9}));
    CHECK_ERROR(load_text({.data = path, .context = 10}),
                "its last 10 %, for validation, has 10 tokens, but context 10 needs at least 11");
    CHECK_ERROR(load_text({.data = path, .context = 100}), "its first 90 %, for training, has 90 tokens");
    const auto other = CharTokenizer::of("bc", "");
    CHECK_ERROR(load_text({.data = path, .tokenizer = other}), "my.txt: character U+0061 (\"a\") at offset 0");
}

TEST_CASE("text: a large vocabulary has wide tokens") {
    std::string text;
    std::vector<uint32_t> points;
    for (uint32_t c = 0x10000; c < 0x10000 + 70000; ++c) points.push_back(c);
    const CharTokenizer tokenizer(points);
    const std::string last = std::string(tokenizer.piece(69999));
    const TokenStream stream = encode_stream(tokenizer, last + last);
    CHECK(stream.size() == 2);
    CHECK(stream[1] == 69999);
}

TEST_CASE("shard: read, and refused when anything is wrong") {
    Scratch scratch;
    const fs::path path = scratch / "tokens.bin";
    write_plainly(path, shard_of({20240520, 1, 3}, {5, 0, 502}));
    CHECK(is_token_shard(path));
    const auto [tokens, digest] = open_token_shard(path, 503);
    CHECK(digest == sha256_file(path));
    REQUIRE(tokens.size() == 3);
    std::vector<int32_t> values(2);
    tokens.copy(1, values);
    CHECK(values == std::vector<int32_t>{0, 502});
    CHECK_ERROR(open_token_shard(path, 502), "tokens.bin: token 502 at byte 1028 is not in the vocabulary of 502");
    const auto refused = [&](const std::string &bytes, const char *part) {
        CHECK_ERROR(open_token_shard(write_plainly(path, bytes), 503), part);
    };
    refused("", "not a token shard: 0 bytes");
    refused(std::string(1023, 'x'), "1023 bytes, its header alone has 1024");
    refused(shard_of({20240521, 1, 3}, {1, 2, 3}), "it begins with 20240521, expected 20240520");
    refused(shard_of({20240520, 2, 3}, {1, 2, 3}), "version 2, expected 1");
    refused(shard_of({20240520, 1, 4}, {1, 2, 3}), "of 4 tokens has 1030 bytes, expected 1032; is it truncated?");
    refused(shard_of({20240520, 1, 2}, {1, 2, 3}), "of 2 tokens has 1030 bytes, 2 more than the 1028");
    refused(shard_of({20240520, 1, 3}, {1, 2, 3}) + "x", "has 1031 bytes");
    refused(shard_of({20240520, 1, -3}, {}), "with -3 tokens");
    refused(shard_of({20240520, 1, 0}, {}), "with 0 tokens");
    CHECK_FALSE(is_token_shard(write_plainly(path, "To be")));
    CHECK_FALSE(is_token_shard(scratch / "none"));
    CHECK_FALSE(is_token_shard(scratch.path));
    std::vector<uint16_t> many(200'000, 1);
    many[150'001] = 65535;
    refused(shard_of({20240520, 1, 200'000}, many), "token 65535 at byte 301026");
}

TEST_CASE("shard: one that is changed while it is in use is named, at the first tokens after that") {
    Scratch scratch;
    const fs::path path = scratch / "tokens.bin";
    const std::string bytes = shard_of({20240520, 1, 9000}, std::vector<uint16_t>(9000, 7));
    const auto changed = [&](const std::function<void()> &change, const char *part) {
        write_plainly(path, bytes);
        fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(1));
        Loader loader(sequential_windows(open_token_shard(path, 8).tokens, {.batch = 1, .context = 4500}), 0, 1);
        CHECK(loader.next().tokens[4499] == 7);
        change();
        loader.seek(0);
        CHECK_ERROR(loader.next(), part);
    };
    changed([&] { fs::resize_file(path, 1024 + 2 * 6000); },
            "tokens.bin: it had 19024 bytes and has 13024 now: it was changed while it was in use");
    changed([&] { fs::resize_file(path, 2000); },
            "tokens.bin: it had 19024 bytes and ends at byte 2000 now: it was cut short while it was in use");
    changed([&] { fs::resize_file(path, 20000); }, "tokens.bin: it had 19024 bytes and has 20000 now");
    changed([&] { write_plainly(path, bytes); }, "tokens.bin: it was written to while it was in use");
    const auto with_time = [&](const std::string &other) {
        const fs::file_time_type time = fs::last_write_time(path);
        write_plainly(path, other);
        fs::last_write_time(path, time);
    };
    std::string other = bytes;
    other[1024 + 2 * 4000] = 8;
    changed([&] { with_time(other); }, "tokens.bin: token 8 at byte 9024 is not in the vocabulary of 8");
    // Another file in its place is not the one in use.
    write_plainly(path, bytes);
    const TokenStream tokens = open_token_shard(path, 8).tokens;
    fs::rename(write_plainly(scratch / "other", "x"), path);
    CHECK(tokens[8999] == 7);
}

}  // namespace cryolite::test
