#pragma once

#include "runtime/io/open_file.h"

namespace cryolite {

/// A shared library that is loaded from an open file, so that no other can come in its place.
class Library {
public:
    enum class For { one, everybody };  ///< everybody: its symbols are seen by what is loaded later, and it stays
    /// `what`: "the kernels". Errors: it is no library, or lacks what it needs.
    Library(std::shared_ptr<const OpenFile> file, const std::string &what, For whom = For::one);

    /// Null: it has none of this name.
    void *symbol(const std::string &name) const;

private:
    struct Loaded;
    std::shared_ptr<Loaded> loaded_;
};

}  // namespace cryolite
