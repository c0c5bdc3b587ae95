#pragma once
// A temporary folder of a command.

#include <stdlib.h>

#include <cstring>

#include "runtime/io/files.h"

namespace cryolite {

/// A new folder, which is removed with this object.
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
