#pragma once
// A folder for what a command makes on its way.

#include <stdlib.h>

#include <cstring>

#include "runtime/io/files.h"

namespace cryolite {

/// A new folder that is gone with this.
class WorkFolder {
public:
    /// Errors: it cannot be made.
    explicit WorkFolder(const std::string &name) {
        std::string path_text = (fs::temp_directory_path() / (name + "-XXXXXX")).string();
        if (!mkdtemp(path_text.data())) fail("cannot make the folder {}: {}", path_text, strerror(errno));
        path = path_text;
    }
    ~WorkFolder() {
        std::error_code ignored;
        fs::remove_all(path, ignored);
    }
    WorkFolder(const WorkFolder &) = delete;
    fs::path path;
};

}  // namespace cryolite
