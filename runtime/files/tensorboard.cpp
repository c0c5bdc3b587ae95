// TensorBoard's event files by hand: four fields of one message do not need TensorFlow or protobuf.

#include "runtime/files/metrics.h"

#include "runtime/io/error.h"

#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>

namespace cryolite {

uint32_t crc32c(std::string_view data) {
    static const auto table = [] {
        std::array<uint32_t, 256> entries{};
        for (uint32_t i = 0; i < 256; ++i) {
            uint32_t c = i;
            for (int bit = 0; bit < 8; ++bit) c = c & 1 ? c >> 1 ^ 0x82f63b78u : c >> 1;
            entries[i] = c;
        }
        return entries;
    }();
    uint32_t c = ~0u;
    for (unsigned char byte : data) c = table[(c ^ byte) & 255] ^ c >> 8;
    return ~c;
}

namespace {

double seconds_since_1970() {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

template <typename T> std::string raw(T value) {
    std::string bytes(sizeof value, '\0');
    std::memcpy(bytes.data(), &value, sizeof value);
    return bytes;
}

/// Protocol buffers: a field is its number and wire type, then its value.
std::string varint(uint64_t value) {
    std::string bytes;
    for (; value >= 128; value >>= 7) bytes += static_cast<char>((value & 127) | 128);
    return bytes + static_cast<char>(value);
}
std::string key(int field, int type) { return varint(static_cast<uint64_t>(field << 3 | type)); }
std::string field_text(int field, std::string_view text) {
    return key(field, 2) + varint(text.size()) + std::string(text);
}

/// tensorflow.Event: wall_time = 1, step = 2, and `what`: one more field.
std::string event(uint64_t step, const std::string &what) {
    return key(1, 1) + raw(seconds_since_1970()) + key(2, 0) + varint(step) + what;
}

AppendFile new_event_file(const fs::path &folder) {
    make_private_dirs(folder, 0755);
    char host[65] = "localhost";
    ::gethostname(host, sizeof host - 1);
    const auto time = static_cast<long long>(seconds_since_1970());
    std::error_code ignored;
    for (int number = 0;; ++number) {
        const auto name = fmt::format("events.out.tfevents.{:010}.{}.{}.{}", time, host, ::getpid(), number);
        if (!fs::exists(folder / name, ignored)) return AppendFile(folder / name);
    }
}

/// TFRecord's checksum: rotated and shifted, since a CRC of data with CRCs inside is weak.
std::string masked_crc(std::string_view data) {
    const uint32_t c = crc32c(data);
    return raw<uint32_t>((c >> 15 | c << 17) + 0xa282ead8u);
}

}  // namespace

TensorBoardWriter::TensorBoardWriter(const fs::path &folder, uint64_t resumed_step) : file_(new_event_file(folder)) {
    record(event(0, field_text(3, "brain.Event:2")));  // file_version
    if (resumed_step == 0) return;
    const std::string start = key(1, 0) + varint(1);  // SessionLog.status = START
    record(event(resumed_step + 1, field_text(7, start)));
}

void TensorBoardWriter::scalar(std::string_view tag, uint64_t step, double value) {
    const std::string entry = field_text(1, tag) + key(2, 5) + raw(static_cast<float>(value));
    record(event(step, field_text(5, field_text(1, entry))));  // summary, value
}

void TensorBoardWriter::record(std::string_view event) {
    const std::string length = raw<uint64_t>(event.size());
    file_.append(as_bytes(length + masked_crc(length) + std::string(event) + masked_crc(event)));
}

}  // namespace cryolite
