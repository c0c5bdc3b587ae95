#include "runtime/files/metrics.h"
#include "tests/runtime/scratch.h"

#include <cstring>
#include <vector>

namespace cryolite::test {

TEST_CASE("metrics: lines are there at once, and a resume cuts what came after its step") {
    Scratch scratch;
    const fs::path path = scratch / "metrics.jsonl";
    {
        MetricsWriter metrics(path);
        metrics.write(R"({"event":"compile"})");
        for (int step = 1; step <= 5; ++step) {
            metrics.write(fmt::format(R"({{"event":"step","step":{}}})", step));
            metrics.write(R"({"event":"note"})");
        }
        CHECK(contains(read_file(path), "\"step\":5}\n{\"event\":\"note\"}\n"));
        CHECK_ERROR(metrics.write("{\n}"), "has a line break");
    }
    write_plainly(path, read_file(path) + "{\"event\":\"step\",\"st");
    const std::string first_two = "{\"event\":\"compile\"}\n"
                                  "{\"event\":\"step\",\"step\":1}\n{\"event\":\"note\"}\n"
                                  "{\"event\":\"step\",\"step\":2}\n{\"event\":\"note\"}\n";
    MetricsWriter resumed(path, 2);
    CHECK(read_file(path) == first_two);
    resumed.write(R"({"step":3})");
    CHECK(read_file(path) == first_two + "{\"step\":3}\n");
    MetricsWriter(scratch / "new.jsonl", 7).write("{}");
    CHECK(read_file(scratch / "new.jsonl") == "{}\n");
    write_plainly(path, "garbage\n{\"step\":1}\n\xff\n");
    MetricsWriter healed(path, 9);
    CHECK(read_file(path) == "{\"step\":1}\n");
    { MetricsWriter again(path); }
    CHECK(read_file(path).empty());
    CHECK_ERROR(MetricsWriter(scratch / "no/metrics.jsonl"), "its folder does not exist");
}

TEST_CASE("tensorboard: CRC-32C of known data (RFC 3720)") {
    CHECK(crc32c("123456789") == 0xe3069283u);
    CHECK(crc32c(std::string(32, '\0')) == 0x8a9136aau);
    CHECK(crc32c(std::string(32, '\xff')) == 0x62a8ab43u);
    CHECK(crc32c("") == 0);
}

TEST_CASE("tensorboard: an event file that a reader of TFRecords takes") {
    Scratch scratch;
    {
        TensorBoardWriter writer(scratch / "tb", 10);
        writer.scalar("loss/train", 300, 1.5);
    }
    const fs::path path = fs::directory_iterator(scratch / "tb")->path();
    CHECK(path.filename().string().starts_with("events.out.tfevents."));
    const std::string bytes = read_file(path);
    std::vector<std::string> events;
    for (size_t at = 0; at < bytes.size();) {
        uint64_t length = 0;
        uint32_t stored = 0;
        REQUIRE(at + 12 <= bytes.size());
        std::memcpy(&length, &bytes[at], 8);
        REQUIRE(at + 16 + length <= bytes.size());
        const auto masked = [](std::string_view data) {
            const uint32_t c = crc32c(data);
            return (c >> 15 | c << 17) + 0xa282ead8u;
        };
        std::memcpy(&stored, &bytes[at + 8], 4);
        CHECK(stored == masked(bytes.substr(at, 8)));
        events.push_back(bytes.substr(at + 12, length));
        std::memcpy(&stored, &bytes[at + 12 + length], 4);
        CHECK(stored == masked(events.back()));
        at += 16 + length;
    }
    REQUIRE(events.size() == 3);
    CHECK(events[0].substr(9) == std::string("\x10\x00\x1a\x0d", 4) + "brain.Event:2");
    CHECK(events[1].substr(9) == std::string("\x10\x0b\x3a\x02\x08\x01", 6));
    // step = 300; summary { value { tag: "loss/train", simple_value: 1.5 } }
    CHECK(events[2].substr(9) == std::string("\x10\xac\x02\x2a\x13\x0a\x11\x0a\x0a", 9) + "loss/train" +
                                     std::string("\x15\x00\x00\xc0\x3f", 5));
}

}  // namespace cryolite::test
