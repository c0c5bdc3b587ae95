#include <cstring>

#include "runtime/files/safetensors.h"
#include "tests/fuzz/fuzz.h"

using namespace cryolite;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    // The header's length in front, so that the fuzzer need not keep it true:
    // for odd inputs the first byte says otherwise.
    std::string bytes(fuzz::text_of(data, size));
    if (const size_t end = bytes.find('\n'); end != bytes.npos && !bytes.empty() && bytes[0] == '{') {
        const uint64_t length = end;
        std::string whole(8, '\0');
        std::memcpy(whole.data(), &length, 8);
        bytes = whole + bytes.substr(0, end) + bytes.substr(end + 1);
    }
    const fuzz::InputFile input(bytes);
    fuzz::may_refuse([&] {
        const SafetensorsFile file(input.path());
        size_t covered = 0;
        for (const TensorEntry &e : file.entries()) {
            fuzz::require(e.begin + e.bytes() <= bytes.size());
            fuzz::require(file.find(e.name) == &e);
            covered += e.bytes();
            fuzz::may_refuse([&] { fuzz::require(file.read_float32(e.name).size() == e.elements()); });
        }
        fuzz::require(covered <= bytes.size());
    });
    return 0;
}
