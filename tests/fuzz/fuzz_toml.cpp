#include "apps/cryolite/cli/config_file.h"
#include "runtime/tokenizer/utf8.h"
#include "tests/fuzz/fuzz.h"

using namespace cryolite;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const std::string text(fuzz::text_of(data, size));
    fuzz::may_refuse([&] { read_config(fuzz::InputFile(text).path(), Origin::config); });
    // Any text that is UTF-8 is a value that is read back.
    if (first_not_utf8(text) == std::string::npos) {
        const fuzz::InputFile written("data = " + toml_string(text) + "\n");
        fuzz::require(read_config(written.path(), Origin::config).at("data").text == text);
    }
    return 0;
}
