// Runs a fuzzer on the files of folders, as a test: those that found a fault once, and some of every kind.
// usage: FUZZER FOLDER...

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

#include "tests/fuzz/fuzz.h"

int main(int argc, char **argv) {
    using namespace cryolite;
    std::vector<fs::path> files;
    for (int i = 1; i < argc; i++)
        for (const fs::directory_entry &entry : fs::directory_iterator(argv[i])) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    for (const fs::path &file : files) {
        std::printf("%s\n", file.c_str());
        std::fflush(stdout);  // the last one is at fault where it ends here
        // A copy of just its bytes: a read past their end is one past an allocation.
        const std::string bytes = read_file(file);
        std::vector<uint8_t> data(bytes.size());
        if (!data.empty()) std::memcpy(data.data(), bytes.data(), bytes.size());
        LLVMFuzzerTestOneInput(data.data(), data.size());
    }
    std::printf("%zu inputs\n", files.size());
    return files.empty();
}
