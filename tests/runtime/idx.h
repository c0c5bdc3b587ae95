#pragma once
// A folder of images and labels in IDX files.

#include <vector>

#include "tests/runtime/scratch.h"

namespace cryolite::test {

/// Images of width x height to train on, and some to hold out; labels are 0, 1, 2, 0, 1, ..., the brighter the higher.
struct IdxFolder {
    Scratch scratch;
    const int width, height;

    IdxFolder(int train, int held_out, int width, int height) : width(width), height(height) {
        write_part("train", train), write_part("t10k", held_out);
    }
    uint8_t pixel(int image, int place) const { return uint8_t(image % 3 * 80 + place % 7 * 8 + image); }
    void write(const std::string &name, const std::string &bytes) const { write_plainly(scratch / name, bytes); }

    static std::string file(const std::vector<uint32_t> &extents, const std::vector<uint8_t> &values) {
        std::string bytes = {0, 0, 8, char(extents.size())};
        for (uint32_t e : extents)
            for (int shift : {24, 16, 8, 0}) bytes += char(e >> shift);
        return bytes + std::string(values.begin(), values.end());
    }

private:
    void write_part(const std::string &part, int count) const {
        std::vector<uint8_t> images, labels;
        for (int i = 0; i < count; i++) {
            labels.push_back(uint8_t(i % 3));
            for (int p = 0; p < width * height; p++) images.push_back(pixel(i, p));
        }
        write(part + "-images-idx3-ubyte", file({uint32_t(count), uint32_t(height), uint32_t(width)}, images));
        write(part + "-labels-idx1-ubyte", file({uint32_t(count)}, labels));
    }
};

}  // namespace cryolite::test
