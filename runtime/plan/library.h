#pragma once

#include "runtime/io/open_file.h"

namespace cryolite {

/// A shared library that is loaded from an open file, so that no other file can take its place.
class Library {
public:
    enum class For { one, everybody };  ///< everybody: libraries loaded later see its symbols, and it is never unloaded
    /// `what` names it in messages: "the kernels". Errors: it is no library, or lacks symbols that it needs.
    Library(std::shared_ptr<const OpenFile> file, const std::string &what, For whom = For::one);

    /// The symbol's address; null: there is none of this name.
    void *symbol(const std::string &name) const;

private:
    struct Loaded;
    std::shared_ptr<Loaded> loaded_;
};

}  // namespace cryolite
