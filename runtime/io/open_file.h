#pragma once
// Files by their descriptors: what was checked is what is read and loaded, whatever happens to their names meanwhile.

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>

#include "runtime/io/files.h"

namespace cryolite {

class Descriptor {
public:
    explicit Descriptor(int number = -1) : number_(number) {}
    ~Descriptor();
    Descriptor(Descriptor &&other) noexcept;
    Descriptor(const Descriptor &) = delete;

    int number() const { return number_; }

private:
    int number_;
};

/// A regular file that is open for reading.
class OpenFile {
public:
    /// `path`: its name in messages.
    OpenFile(fs::path path, Descriptor descriptor) : path_(std::move(path)), descriptor_(std::move(descriptor)) {}
    /// Errors: missing, unreadable, no regular file.
    static std::shared_ptr<const OpenFile> at(const fs::path &path);

    const fs::path &path() const { return path_; }
    int descriptor() const { return descriptor_.number(); }
    uint64_t size() const;
    std::string read() const;
    std::string sha256() const;
    /// A path of this very file, for this process and its children, while this object lives.
    fs::path link() const;

private:
    template <typename Take> void read_to(const Take &take) const;

    fs::path path_;
    Descriptor descriptor_;
};

/// The files of a folder, by their names.
using OpenFiles = std::map<std::string, std::shared_ptr<const OpenFile>>;

/// What was opened, or why it is not this user's alone to write.
struct Trusted {
    Descriptor descriptor;
    std::string why;  ///< empty: it is
};

/// Opens `name` in the folder `parent` (AT_FDCWD: a path), without following a link unless `follow`, and checks what
/// was opened: its type (S_IFDIR or S_IFREG), owner and mode. Errors: FileError, where the system could not open it
/// this time.
Trusted open_trusted(int parent, const fs::path &name, mode_t type, bool follow = false);

}  // namespace cryolite
