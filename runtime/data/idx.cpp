#include "runtime/data/idx.h"

#include <algorithm>
#include <array>

#include "runtime/io/error.h"

namespace cryolite {

namespace {

constexpr uint32_t most = 1 << 24;  // of any extent

/// The file of this name, with .gz or without.
fs::path file_named(const fs::path &folder, const std::string &name) {
    const fs::path plain = folder / name, packed = folder / (name + ".gz");
    return is_there(plain) || !is_there(packed) ? plain : packed;
}

}  // namespace

IdxArray read_idx(const fs::path &path, size_t dimensions) {
    IdxArray idx;
    const std::string name = path.string();
    std::string bytes = read_file(path);
    idx.digest = sha256_hex(bytes);
    bytes = expand_gzip(std::move(bytes), name);
    const auto byte = [&](size_t i) { return uint32_t{static_cast<unsigned char>(bytes[i])}; };
    const size_t header = 4 + 4 * dimensions;
    if (bytes.size() >= 4 && bytes.size() < header && bytes.starts_with(std::string{0, 0, 8, char(dimensions)}))
        fail("{}: has {} bytes, but its header alone has {}: it is truncated", name, bytes.size(), header);
    if (bytes.size() < header || byte(0) != 0 || byte(1) != 0)
        fail("{}: not an IDX file: it has to begin with two zero bytes, 8 and {}", name, dimensions);
    if (byte(2) != 8) fail("{}: byte 2, the type, is {}, expected 8: unsigned bytes", name, byte(2));
    if (byte(3) != dimensions)
        fail("{}: byte 3, the number of dimensions, is {}, expected {}", name, byte(3), dimensions);
    uint64_t count = 1;
    for (size_t d = 0; d < dimensions; d++) {
        const size_t at = 4 + 4 * d;
        const uint32_t extent = byte(at) << 24 | byte(at + 1) << 16 | byte(at + 2) << 8 | byte(at + 3);
        if (extent < 1 || extent > most)
            fail("{}: byte {}, extent {}, is {}, expected 1 to {}", name, at, d, extent, most);
        idx.extents.push_back(extent);
        count = count > bytes.size() ? count : count * extent;  // stops above the file's size: no overflow
    }
    if (bytes.size() - header != count)
        fail("{}: {} bytes follow its header, which says {}: {}", name, bytes.size() - header, count,
             bytes.size() - header < count ? "it is truncated; copy or download it again" : "too many");
    idx.values.assign(bytes.begin() + long(header), bytes.end());
    return idx;
}

namespace {

Table read_part(const fs::path &folder, const std::string &part) {
    const fs::path pictures = file_named(folder, part + "-images-idx3-ubyte");
    const fs::path classes = file_named(folder, part + "-labels-idx1-ubyte");
    const IdxArray images = read_idx(pictures, 3), labels = read_idx(classes, 1);
    if (images.extents[0] != labels.extents[0])
        fail("{} has {} images, {} {} labels: they do not belong together; copy both again", pictures.string(),
             images.extents[0], classes.string(), labels.extents[0]);
    Table table;
    table.height = images.extents[1], table.width = images.extents[2], table.columns = table.width * table.height;
    table.labels.assign(labels.values.begin(), labels.values.end());
    table.pixels = std::make_shared<const std::vector<uint8_t>>(images.values);
    table.digest = sha256_hex(images.digest + labels.digest);
    return table;
}

void check_labels(const Table &table, const fs::path &file) {
    for (size_t i = 0; i < table.labels.size(); i++)
        if (table.labels[i] >= table.classes)
            fail("{}: label {} of image {} is not one of {} classes (0 to {})", file.string(), table.labels[i], i,
                 table.classes, table.classes - 1);
}

}  // namespace

bool is_idx_folder(const fs::path &path) {
    std::error_code ignored;
    return fs::is_directory(path, ignored) && is_there(file_named(path, "train-images-idx3-ubyte"));
}

std::pair<Table, Table> load_idx_folder(const fs::path &folder, int classes) {
    std::error_code ignored;
    for (const char *name :
         {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"})
        if (fs::is_directory(folder, ignored) && !is_there(file_named(folder, name)))
            fail("{} has no {}: a folder of images has the four files {{train,t10k}}-images-idx3-ubyte and "
                 "{{train,t10k}}-labels-idx1-ubyte, with .gz or without",
                 folder.string(), name);
    std::array<Table, 2> tables = {read_part(folder, "train"), read_part(folder, "t10k")};
    if (tables[0].width != tables[1].width || tables[0].height != tables[1].height)
        fail("{}: images of train-images are {} x {}, those of t10k-images {} x {}", folder.string(), tables[0].width,
             tables[0].height, tables[1].width, tables[1].height);
    int32_t largest = 0;
    for (const Table &t : tables) largest = std::max(largest, std::ranges::max(t.labels));
    for (Table &t : tables) t.classes = classes ? classes : largest + 1;
    check_labels(tables[0], file_named(folder, "train-labels-idx1-ubyte"));
    check_labels(tables[1], file_named(folder, "t10k-labels-idx1-ubyte"));
    tables[0].digest = sha256_hex(tables[0].digest + tables[1].digest);
    return {std::move(tables[0]), std::move(tables[1])};
}

}  // namespace cryolite
